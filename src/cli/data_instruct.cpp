// makar data instruct: labelled data as instructions. makar data self-instruct: new instructions written by a
// model.
#include <fmt/format.h>

#include <set>

#include "augment/instructions.h"
#include "base/file_writer.h"
#include "base/progress.h"
#include "cli/data_paths.h"
#include "cli/model_options.h"
#include "cli/model_request.h"
#include "cli/run.h"
#include "data/schema.h"
#include "llm/text_generation.h"

namespace makar {
namespace {

// Parses LABEL=NAME, such as "0=negative".
Result<LabelNames> parse_label_names(const std::vector<std::string>& texts) {
  LabelNames out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return error_at("--label", "expected LABEL=NAME, got '{}'", text);
    out[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return out;
}

struct InstructionCounts {
  uint64_t records = 0, written = 0;
  BadRecords bad;
};

Result<InstructionCounts> write_instructions(const std::vector<DataPath>& paths, const InstructionTask& task,
                                             const LabelNames& names, int64_t copies, int64_t seed,
                                             const std::string& output) {
  constexpr size_t kMaxLabels = 100;
  std::set<std::string> labels;
  {
    MAKAR_TRY(auto reader, RecordReader::open(paths));
    for (DataRecord record;;) {
      MAKAR_TRY(const bool found, reader.next(record));
      if (!found) break;
      if (const std::string label = label_name(record.value, {});
          !label.empty() && labels.size() <= kMaxLabels)
        labels.insert(label);
    }
  }
  if (labels.size() > kMaxLabels) labels.clear();  // not a classification task
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  MAKAR_TRY(auto out, FileWriter::open(output));
  InstructionCounts counts;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const uint64_t record_index = counts.records++;
    for (int64_t copy = 0; copy < copies; ++copy) {
      // Each copy of a record uses the next template, starting at a random one.
      const size_t first =
          TextDraws(static_cast<uint64_t>(seed), record_index, 0).below(task.templates.size());
      const auto instruction = as_instruction(record.value, task, {labels.begin(), labels.end()}, names,
                                              first + static_cast<size_t>(copy));
      if (!instruction.ok()) {
        reader.bad().add_once(record.place(), instruction.error().message);
        break;
      }
      MAKAR_RETURN_IF_ERROR(out.write(dump(*instruction) + "\n"));
      ++counts.written;
    }
  }
  MAKAR_RETURN_IF_ERROR(out.commit());
  counts.bad = reader.bad();
  return counts;
}

// {"instruction"} records, or lines of text.
Result<std::vector<std::string>> read_seed_instructions(const std::vector<DataPath>& paths) {
  constexpr size_t kMaxInstructions = 100'000;
  std::vector<std::string> out;
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const Json* text = field(record.value, {"instruction", "prompt", "text"});
    if (!text || !text->is_string()) continue;
    const std::string lines = text->get<std::string>();
    for (size_t at = 0; at < lines.size() && out.size() < kMaxInstructions;) {
      const size_t end = std::min(lines.find('\n', at), lines.size());
      if (end > at) out.push_back(lines.substr(at, end - at));
      at = end + 1;
    }
  }
  if (out.size() < 2) return error_at("SEEDS", "has {} instructions; at least 2 are needed", out.size());
  return out;
}

struct SelfInstructCommand {
  ModelOptions model;
  std::vector<std::string> paths;
  std::string output;
  int64_t count = 100, attempts = 1000, seed = 1;
  double similar = 0.7, temperature = 0.8;
  bool answers = false, quiet = false, json = false;
};

void declare_self_instruct(Options& options, SelfInstructCommand& c) {
  c.model.declare(options);
  declare_device(options, c.model.device);
  options.positional("SEEDS", &c.paths, "instructions to start from: {\"instruction\"} records, or lines");
  options.add("-o --output --out", &c.output, "JSONL file to write", "FILE").required = true;
  options.add("--count", &c.count, "stop after this many instructions are kept", "N");
  options.add("--attempts", &c.attempts, "maximum number of instructions to generate", "N");
  options.add("--similar", &c.similar, "drop instructions whose ROUGE-L with a known one is at least this",
              "X");
  options.add("--answers", &c.answers, "let the model answer each instruction too");
  options.add("--temp", &c.temperature, "sampling temperature", "X");
  options.add("--seed", &c.seed, "seed for sampling", "S");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the counts as JSON");
}

Status check_self_instruct(const SelfInstructCommand& c) {
  if (c.count < 1 || c.attempts < 1 || !(c.similar > 0 && c.similar <= 1) || !(c.temperature >= 0))
    return error_at("data self-instruct",
                    "--count and --attempts must be 1 or more, --similar above 0 and at most 1, "
                    "--temp 0 or more");
  return Done{};
}

struct SelfInstructCounts {
  uint64_t kept = 0, tried = 0;
  std::map<std::string, uint64_t> drops;  // by reason
};

// The model's continuation of `begin`, its answer to the prompt.
Result<std::string> complete_answer(Engine& engine, const LanguageModel& language, const std::string& prompt,
                                    const std::string& begin, const TextGenerationOptions& options) {
  MAKAR_TRY(auto ids, encode_request(language, prompt, begin));
  MAKAR_TRY(const auto result, generate_text(engine, language, std::move(ids), options));
  return result.answers.empty() ? std::string() : result.answers[0].text;
}

// Adds to `instructions`, from which the examples of the prompts are drawn.
Status generate_instructions(const SelfInstructCommand& c, Engine& engine, const LanguageModel& language,
                             std::vector<std::string>& instructions, SelfInstructCounts& counts) {
  constexpr size_t kExamples = 6;  // known instructions in the prompt
  constexpr int64_t kInstructionTokens = 80, kAnswerTokens = 200;
  InstructionFilter filter(c.similar);
  for (const std::string& text : instructions) filter.add_known(text);
  MAKAR_TRY(auto out, FileWriter::open(c.output));
  Progress progress(c.quiet || c.json);
  const bool chat = language.chat_template().has_value();
  const std::string prompt =
      chat ? "Write a list of different tasks." : "Here is a list of different tasks:\n";
  const auto count = static_cast<uint64_t>(c.count), attempts = static_cast<uint64_t>(c.attempts);
  while (counts.kept < count && counts.tried < attempts) {
    TextDraws draws(static_cast<uint64_t>(c.seed), counts.tried++, 0);
    std::vector<std::string> examples;
    for (size_t i = 0; i < std::min(kExamples, instructions.size()); ++i)
      examples.push_back(instructions[draws.below(instructions.size())]);
    TextGenerationOptions o;
    // A large prime separates the seeds of different values of --seed.
    o.sampler = {c.temperature, 0, 0.95, static_cast<uint64_t>(c.seed) * 1'000'003 + counts.tried};
    o.max_new_tokens = kInstructionTokens, o.fit = true, o.stop = {"\n"};
    MAKAR_TRY(const std::string text, complete_answer(engine, language, prompt, numbered_list(examples), o));
    const std::string instruction = next_instruction(text);
    const std::string reason = instruction.empty() ? "empty" : filter.drop(instruction);
    progress.show("kept", counts.kept, count, fmt::format("{} tried", counts.tried));
    if (!reason.empty()) {
      ++counts.drops[reason];
      continue;
    }
    Json record = {{"instruction", instruction}, {"input", ""}, {"output", ""}};
    if (c.answers) {
      o.max_new_tokens = kAnswerTokens, o.stop.clear();
      MAKAR_TRY(record["output"],
                complete_answer(engine, language, instruction, chat ? "" : "\n\nAnswer:", o));
    }
    MAKAR_RETURN_IF_ERROR(out.write(dump(record) + "\n"));
    instructions.push_back(instruction), ++counts.kept;
  }
  return out.commit();
}

}  // namespace

int run_data_instruct(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths, labels;
  std::string task_name, output;
  int64_t copies = 1, seed = 1;
  bool json = false;
  std::string tasks;
  for (const InstructionTask& t : instruction_tasks())
    tasks += fmt::format("{}{}", tasks.empty() ? "" : ", ", t.name);
  Options options(
      "data instruct", "Turn labelled data into instructions, with several templates per task.",
      "makar data instruct sst2.tsv --task sentiment --label 0=negative --label 1=positive -o sst2.jsonl");
  options.positional("PATHS", &paths, "records with the fields of the task");
  options.add("--task", &task_name, "task: " + tasks, "NAME").required = true;
  options.add("--label", &labels, "text to write for a label; may be repeated", "LABEL=NAME");
  options.add("--copies", &copies, "instructions per record, each with another template", "N");
  options.add("--seed", &seed, "seed for the choice of templates", "S");
  options.add("-o --output --out", &output, "JSONL file to write: instruction, input, output", "FILE")
      .required = true;
  options.add("--json", &json, "print the counts as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto task = find_task(task_name);
  if (!task.ok()) return report(task.error()), 2;
  const auto names = parse_label_names(labels);
  if (!names.ok()) return report(names.error()), 2;
  if (copies < 1 || copies > static_cast<int64_t>((*task)->templates.size()))
    return report(error_at("--copies", "must be 1 to the task's {} templates, got {}",
                           (*task)->templates.size(), copies)),
           2;
  const auto data_paths = parse_data_paths(paths);
  if (!data_paths.ok()) return report(data_paths.error()), 2;
  const auto counts = write_instructions(*data_paths, **task, *names, copies, seed, output);
  if (!counts.ok()) return report(counts.error());
  if (json) {
    const Json out = {
        {"records", counts->records}, {"written", counts->written}, {"bad_records", counts->bad.count}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print("{}: {} instructions from {} records\n", output, counts->written, counts->records);
  for (const std::string& line : counts->bad.reported) fmt::print("  skipped {}\n", line);
  return 0;
}

int run_data_self_instruct(const std::vector<std::string>& arguments) {
  SelfInstructCommand c;
  Options options("data self-instruct",
                  "Let a language model write new instructions from examples, and filter them.",
                  "makar data self-instruct -m MODEL seeds.jsonl --count 500 -o new.jsonl");
  declare_self_instruct(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_self_instruct(c); !checked.ok()) return report(checked.error()), 2;
  const auto data_paths = parse_data_paths(c.paths);
  if (!data_paths.ok()) return report(data_paths.error()), 2;
  auto instructions = read_seed_instructions(*data_paths);
  if (!instructions.ok()) return report(instructions.error());
  const auto opened = open_on_device(c.model);
  if (!opened.ok()) return report(opened.error());
  const LanguageModel& language = opened->language;
  if (!language.has_tokenizer() || !language.spec().decoder || language.spec().encoder)
    return report(
        error_of(Error::Kind::kUnsupported, c.model.model, "is not a language model that generates text"));
  const auto engine_options = EngineFlags().resolve(language.model());
  if (!engine_options.ok()) return report(engine_options.error());
  Engine engine(language.model(), *opened->device, *engine_options);
  SelfInstructCounts counts;
  if (const Status s = generate_instructions(c, engine, language, *instructions, counts); !s.ok())
    return report(s.error());
  if (c.json) {
    const Json out = {{"kept", counts.kept}, {"tried", counts.tried}, {"drops", counts.drops}};
    return fmt::print("{}\n", out.dump()), 0;
  }
  fmt::print("{}: kept {} of {} generated instructions", c.output, counts.kept, counts.tried);
  for (const auto& [reason, n] : counts.drops) fmt::print(", {} {}", reason, n);
  fmt::print("\n");
  return 0;
}

}  // namespace makar
