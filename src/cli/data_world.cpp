// makar data world: generates stories, questions and preferences of a small simulated world, and checks
// answers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/run.h"
#include "metrics/resample.h"
#include "world/check.h"

namespace makar {
namespace {

// Options that select records, shared by the generator and the checker.
struct WorldRecords {
  std::string split = "train";
  int64_t seed = 1, events = world::WorldOptions{}.events, first = 0;
  std::string kinds;
  world::WorldOptions options;

  void declare(Options& o) {
    o.add("--split", &split,
          "which people appear: train; test: people who never meet in train; names: people whose names are "
          "not in train",
          "NAME");
    o.add("--seed", &seed, "seed of the world", "N");
    o.add("--events", &events, "about this many events per story, 3 to 40", "N");
    o.add("--kinds", &kinds,
          "ask only questions of these kinds, separated by commas, such as where_person,job; all kinds if "
          "not set",
          "NAMES");
    o.add("--first", &first, "number of the first record", "N");
  }
  // Checks the options and fills `options` from them.
  Status parse() {
    const auto parsed_split = world::split_named(split);
    if (!parsed_split)
      return error_at("--split", "expected {}, got '{}'{}", fmt::join(world::split_names(), ", "), split,
                      did_you_mean(split, world::split_names()));
    if (seed < 0 || first < 0) return error_at(seed < 0 ? "--seed" : "--first", "expected 0 or more");
    if (events < world::WorldOptions::kMinEvents || events > world::WorldOptions::kMaxEvents)
      return error_at("--events", "expected {} to {}, got {}", world::WorldOptions::kMinEvents,
                      world::WorldOptions::kMaxEvents, events);
    options = {static_cast<uint64_t>(seed), *parsed_split, static_cast<int>(events), 0};
    const std::vector<std::string>& known_kinds = world::question_kinds();
    for (size_t from = 0; from < kinds.size();) {
      const size_t end = std::min(kinds.find(',', from), kinds.size());
      const std::string kind = kinds.substr(from, end - from);
      const auto at = std::find(known_kinds.begin(), known_kinds.end(), kind);
      if (at == known_kinds.end())
        return error_at("--kinds", "expected {}, got '{}'{}", fmt::join(known_kinds, ", "), kind,
                        did_you_mean(kind, known_kinds));
      options.kinds |= uint64_t{1} << (at - known_kinds.begin());
      from = end + 1;
    }
    return Done{};
  }
};

Status write_records(world::Form form, const WorldRecords& records, uint64_t count, const std::string& path,
                     bool quiet) {
  std::optional<FileWriter> file;
  if (!path.empty()) {
    if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0)
      MAKAR_RETURN_IF_ERROR(make_folder(path.substr(0, slash)));
    MAKAR_TRY(FileWriter opened, FileWriter::open(path));
    file.emplace(std::move(opened));
  }
  Progress progress(quiet || path.empty());
  std::string block;
  for (uint64_t i = 0; i < count; ++i) {
    block +=
        world::make_record(form, records.options, static_cast<uint64_t>(records.first) + i).dump() + "\n";
    if (block.size() < (size_t{1} << 16) && i + 1 < count) continue;
    if (file) {
      MAKAR_RETURN_IF_ERROR(file->write(block));
      progress.show("records", i + 1, count, "");
    } else if (std::fwrite(block.data(), 1, block.size(), stdout) != block.size()) {
      return error_of(Error::Kind::kIo, "standard output", "cannot be written");
    }
    block.clear();
  }
  if (file) return file->commit();
  return Done{};
}

// The counts of a comparison, the win rate (a tie counts as half a win) and its bootstrap interval.
Json comparison_json(const world::Comparison& c) {
  const auto win = [&](uint64_t i) { return i < c.better ? 1.0 : i < c.better + c.worse ? 0.0 : 0.5; };
  std::vector<double> wins;
  for (uint64_t i = 0; i < c.count(); ++i) wins.push_back(win(i));
  const auto mean = [&](Sample sample) {
    double sum = 0;
    for (const size_t i : sample) sum += wins[i];
    return sum / static_cast<double>(sample.size());
  };
  const auto interval = bootstrap_interval(wins.size(), mean, {});
  Json out = {{"better", c.better},
              {"worse", c.worse},
              {"both_right", c.both_right},
              {"both_wrong", c.both_wrong},
              {"both_among_others", c.both_among_others},
              {"win_rate", wins.empty() ? 0.0
                                        : (static_cast<double>(c.better) +
                                           0.5 * static_cast<double>(c.count() - c.better - c.worse)) /
                                              static_cast<double>(c.count())}};
  if (interval) out["interval"] = {{"low", interval->low}, {"high", interval->high}, {"level", 0.95}};
  return out;
}

std::string comparison_text(const Json& c) {
  const auto n = [&](const char* key) { return c[key].get<uint64_t>(); };
  std::string rate = fmt::format("win rate {:.1f} %", 100 * c["win_rate"].get<double>());
  if (c.contains("interval"))
    rate += fmt::format(" ({:.1f} to {:.1f})", 100 * c["interval"]["low"].get<double>(),
                        100 * c["interval"]["high"].get<double>());
  return fmt::format(
      "better {}, worse {}, equal {} ({} right, {} right among other words, {} wrong); {}, a tie counts as "
      "half\n",
      n("better"), n("worse"), n("both_right") + n("both_wrong") + n("both_among_others"), n("both_right"),
      n("both_among_others"), n("both_wrong"), rate);
}

int run_world_check(const std::vector<std::string>& arguments) {
  WorldRecords records;
  std::string path, against;
  int64_t show = 0;
  bool json = false;
  Options options(
      "data world check",
      "Check answers to questions of the world: exact and normalized matches per kind of question.",
      "makar data world check --answers answers.jsonl --split test");
  options
      .add("--answers", &path,
           "JSONL of {\"id\", \"answer\"}; or the output of makar generate --jsonl for --form prompts, in "
           "which "
           "line i answers record i of the options below",
           "FILE")
      .required = true;
  records.declare(options);
  options.add(
      "--against", &against,
      "answers of another model to the same questions: report how often those of --answers are better; "
      "from best to worst: right, right among other words (too long, rude), wrong",
      "FILE");
  options.add("--show", &show, "print the first N answers that do not match", "N");
  options.add("--json", &json, "print the counts as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = records.parse(); !s.ok()) return report(s.error()), 2;
  if (show < 0 || show > 100000) return report(error_at("--show", "expected 0 to 100000, got {}", show)), 2;
  const auto result = world::check_answers(path, records.options, static_cast<uint64_t>(records.first),
                                           static_cast<size_t>(show), !against.empty());
  if (!result.ok()) return report(result.error());
  Json comparison_result;
  if (!against.empty()) {
    const auto other_result =
        world::check_answers(against, records.options, static_cast<uint64_t>(records.first), 0, true);
    if (!other_result.ok()) return report(other_result.error());
    const auto comparison = world::compare(*result, *other_result);
    if (!comparison.ok()) return report(error_at(against, "{}", comparison.error().message));
    comparison_result = comparison_json(*comparison);
  }
  const auto percent = [](uint64_t n, uint64_t of) {
    return of > 0 ? 100.0 * static_cast<double>(n) / static_cast<double>(of) : 0.0;
  };
  if (json) {
    const auto counts = [](const world::Score& s) {
      return Json{{"answers", s.answers}, {"exact", s.exact}, {"normalized", s.normalized}};
    };
    Json out = counts(result->all), kinds = Json::object();
    for (const auto& [kind, score] : result->kinds) kinds[kind] = counts(score);
    out["kinds"] = std::move(kinds), out["bad_records"] = result->bad.count;
    if (show > 0) out["wrong"] = result->wrong;
    if (!comparison_result.is_null()) out["against"] = comparison_result;
    fmt::print("{}\n", out.dump());
  } else {
    const auto row = [&](const std::string& name, const world::Score& s) {
      fmt::print("{:<14} {:>8} {:>8.1f} % {:>8.1f} %\n", name, s.answers, percent(s.exact, s.answers),
                 percent(s.normalized, s.answers));
    };
    fmt::print("{:<14} {:>8} {:>10} {:>10}\n", "question", "answers", "exact", "normalized");
    for (const auto& [kind, score] : result->kinds) row(kind, score);
    row("all", result->all);
    if (!comparison_result.is_null()) fmt::print("{}", comparison_text(comparison_result));
    for (const std::string& line : result->wrong) fmt::print("{}\n", line);
    if (result->bad.count > 0) fmt::print("{} lines could not be used:\n", result->bad.count);
    for (const std::string& line : result->bad.reported) fmt::print("  {}\n", line);
  }
  return result->all.answers > 0 ? 0 : report(error_at(path, "has no answer that can be checked"));
}

}  // namespace

int run_data_world(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "check")
    return run_world_check({arguments.begin() + 1, arguments.end()});
  WorldRecords records;
  std::string form = "text", output;
  int64_t count = 1000;
  bool quiet = false;
  Options options(
      "data world",
      "Generate data from a small simulated world: stories, questions whose answers follow from them, "
      "conversations, preferences. The same options give the same bytes on every machine.",
      "makar data world --form instructions -n 20000 --seed 1 -o train.jsonl");
  options.subcommand("check", "check a model's answers to the questions of a world");
  options.add(
      "--form", &form,
      "text, instructions (messages), preferences (chosen, rejected), ranked (4 to 9 answers), rewards "
      "(prompt, answer), questions (the story as data), prompts (for makar generate --jsonl), or unfiltered "
      "(messages; one answer in five is right)",
      "NAME");
  options.add("-n --count", &count, "number of records", "N");
  records.declare(options);
  options.add("-o --output --out", &output, "JSONL file to write; standard output if not set", "FILE");
  options.add("-q --quiet", &quiet, "print no progress");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto record_form = world::form_named(form);
  if (!record_form)
    return report(error_at("--form", "expected {}, got '{}'{}", fmt::join(world::form_names(), ", "), form,
                           did_you_mean(form, world::form_names()))),
           2;
  if (const Status s = records.parse(); !s.ok()) return report(s.error()), 2;
  if (count < 1) return report(error_at("-n", "expected 1 or more, got {}", count)), 2;
  const Status done = write_records(*record_form, records, static_cast<uint64_t>(count), output, quiet);
  return done.ok() ? 0 : report(done.error());
}

}  // namespace makar
