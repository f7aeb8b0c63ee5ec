#include "eval/card.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "data/record_reader.h"
#include "metrics/agreement.h"
#include "metrics/classification.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

// Fields of config.json shown on the card, with their names there.
constexpr std::pair<const char*, const char*> kFacts[] = {
    {"model_type", "family"},          {"hidden_size", "width"},
    {"num_hidden_layers", "layers"},   {"num_attention_heads", "attention heads"},
    {"vocab_size", "vocabulary"},      {"max_position_embeddings", "context"},
    {"torch_dtype", "type of weights"}};

// Tasks that measure bias and safety rather than capability.
bool is_risk(const std::string& task) {
  for (const char* name : {"crows_pairs", "winobias", "winogenerated", "stereoset", "bbq", "truthfulqa",
                           "power_seeking", "corrigible", "hate_speech"})
    if (task.starts_with(name)) return true;
  return false;
}

std::string scores_table(const std::vector<EvaluatedModel>& results, bool risks) {
  std::string rows;
  for (const EvaluatedModel& one : results) {
    const Json& groups =
        one.results.contains("group_subtasks") ? one.results["group_subtasks"] : Json::object();
    std::set<std::string> inner;  // subtasks, which are listed under their group
    for (const auto& group : groups.items())
      if (group.value().is_array())
        for (const Json& name : group.value())
          if (name.is_string()) inner.insert(name.get<std::string>());
    for (const auto& task : one.results["results"].items()) {
      if (is_risk(task.key()) != risks || inner.count(task.key()) || !task.value().is_object()) continue;
      for (const auto& item : task.value().items()) {
        const size_t comma = item.key().find(',');
        if (comma == std::string::npos || !item.value().is_number() ||
            item.key().find("_stderr,") != std::string::npos)
          continue;
        const std::string error = item.key().substr(0, comma) + "_stderr" + item.key().substr(comma);
        const Json& stderr_value = task.value().contains(error) ? task.value()[error] : Json();
        rows +=
            fmt::format("| {} | {} | {:.4f} | {} |\n", task.key(), item.key(), item.value().get<double>(),
                        stderr_value.is_number() ? fmt::format("{:.4f}", stderr_value.get<double>()) : "");
      }
    }
  }
  if (rows.empty()) return "Not measured.\n";
  return "| task | metric | value | standard error |\n|---|---|---|---|\n" + rows;
}

Result<std::string> facts(const std::string& model) {
  std::string out;
  std::error_code code;
  uintmax_t bytes = 0;
  if (fs::is_directory(model, code)) {
    for (fs::directory_iterator it(model, code), end; !code && it != end; it.increment(code))
      if (it->is_regular_file(code)) bytes += it->file_size(code);
  } else {
    bytes = fs::file_size(model, code);
  }
  if (code) return error_of(Error::Kind::kIo, model, "cannot be read: {}", code.message());
  if (is_file(model + "/config.json")) {
    MAKAR_TRY(const std::string text, read_file(model + "/config.json", size_t{16} << 20));
    MAKAR_TRY(const Json config, parse_json(text, model + "/config.json"));
    for (const auto& [key, shown] : kFacts)
      if (config.is_object() && config.contains(key))
        out += fmt::format("| {} | {} |\n", shown,
                           config[key].is_string() ? config[key].get<std::string>() : config[key].dump());
  }
  return "| | |\n|---|---|\n" + out +
         fmt::format("| size on disk | {:.1f} MB |\n", static_cast<double>(bytes) / 1e6);
}

std::string manifest_text(const Json& manifest) {
  if (!manifest.is_object()) return "Not stated.\n";
  std::string out = "| | |\n|---|---|\n";
  for (const auto& item : manifest.items())
    if (!item.value().is_structured())
      out += fmt::format("| {} | {} |\n", item.key(),
                         item.value().is_string() ? item.value().get<std::string>() : item.value().dump());
  return out;
}

std::string rubric_text(const CardInput& input) {
  std::string out = "| point | score of 4 |\n|---|---|\n";
  const auto* mine =
      input.rubric && input.rubric->points.count(input.name) ? &input.rubric->points.at(input.name) : nullptr;
  for (const std::string& point : rubric_points())
    out += fmt::format("| {} | {} |\n", point,
                       mine && mine->count(point) ? fmt::format("{:.2f}", mine->at(point)) : "not rated");
  if (mine)
    out += fmt::format("\nTotal: {:.1f} of 48, {} raters", input.rubric->totals.at(input.name),
                       input.rubric->raters);
  if (mine && input.rubric->kappa) out += fmt::format(", kappa {:.2f}", *input.rubric->kappa);
  return out + (mine ? ".\n" : "");
}

}  // namespace

const std::vector<std::string>& rubric_points() {
  static const std::vector<std::string> points = {"data sources",
                                                  "data governance",
                                                  "copyrighted data",
                                                  "compute",
                                                  "energy",
                                                  "capabilities and limitations",
                                                  "risks and mitigations",
                                                  "evaluations",
                                                  "testing",
                                                  "machine-generated content",
                                                  "member states",
                                                  "downstream documentation"};
  return points;
}

Result<std::vector<RubricRating>> read_ratings(const std::string& path) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  std::vector<RubricRating> out;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (reader.bad().count > 0) return error_at("", "{}", reader.bad().reported.at(0));
    if (!found) break;
    RubricRating rating;
    for (const auto& [key, to] : {std::pair("rater", &rating.rater), std::pair("system", &rating.system),
                                  std::pair("point", &rating.point)}) {
      if (!record.value.contains(key) || !record.value[key].is_string())
        return error_at(record.place(), "expected a text in the column '{}'", key);
      *to = record.value[key];
    }
    const auto& points = rubric_points();
    if (std::find(points.begin(), points.end(), rating.point) == points.end())
      return error_at(record.place(), "{} is not a point of the rubric{}", quote(rating.point),
                      did_you_mean(rating.point, points));
    const Json score = record.value.contains("score") ? record.value["score"] : Json();
    const std::string digits = score.is_string() ? score.get<std::string>() : score.dump();
    if (digits.size() != 1 || digits[0] < '0' || digits[0] > '4')
      return error_at(record.place(), "expected a score from 0 to 4, got {}", quote(digits));
    rating.score = digits[0] - '0';
    out.push_back(std::move(rating));
  }
  if (out.empty()) return error_at(path, "has no ratings");
  return out;
}

Result<RubricResult> rate_systems(const std::vector<RubricRating>& ratings) {
  std::map<std::string, std::map<std::pair<std::string, std::string>, int64_t>> by_rater;
  for (const RubricRating& one : ratings)
    if (!by_rater[one.rater].emplace(std::pair(one.system, one.point), one.score).second)
      return error_at("ratings", "{} rates '{}' of {} twice", quote(one.rater), one.point, quote(one.system));
  RubricResult out;
  out.raters = by_rater.size();
  std::map<std::string, std::map<std::string, std::pair<double, double>>> sums;
  for (const RubricRating& one : ratings) {
    auto& [sum, count] = sums[one.system][one.point];
    sum += static_cast<double>(one.score), ++count;
  }
  for (const auto& [system, points] : sums)
    for (const auto& [point, sum] : points) {
      out.points[system][point] = sum.first / sum.second;
      out.totals[system] += sum.first / sum.second;
    }
  if (by_rater.size() < 2) return out;
  // Agreement on what all have rated.
  std::vector<std::vector<std::string>> labels(by_rater.size());
  for (const auto& entry : by_rater.begin()->second) {
    const auto& item = entry.first;
    const bool all = std::all_of(by_rater.begin(), by_rater.end(),
                                 [&](const auto& rater) { return rater.second.count(item) > 0; });
    if (!all) continue;
    size_t at = 0;
    for (const auto& [rater, scores] : by_rater) labels[at++].push_back(std::to_string(scores.at(item)));
  }
  if (labels[0].empty()) return out;
  if (labels.size() > 2) {
    out.kappa = fleiss_kappa(labels);
  } else {
    MAKAR_TRY(const Confusion confusion, confuse(labels[0], labels[1]));
    out.kappa = cohen_kappa(confusion, 2);
  }
  return out;
}

Result<std::string> model_card(const CardInput& input) {
  MAKAR_TRY(const std::string details, facts(input.model));
  std::string out = fmt::format("# Model card: {}\n\n## Model\n\n{}\n## Training\n\n{}\n", input.name,
                                details, manifest_text(input.manifest));
  out += "## Capabilities\n\n" + scores_table(input.results, false) +
         "\n## Risks: bias, truthfulness, safety\n\n" + scores_table(input.results, true);
  out +=
      "\n## Limits\n\nScores hold for the tasks, prompts and settings of the results files. What is not in "
      "the tables was not measured: "
      "do not rely on it.\n";
  return out + "\n## Points of regulation\n\n" + rubric_text(input);
}

}  // namespace makar
