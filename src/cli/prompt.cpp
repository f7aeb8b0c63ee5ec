// makar prompt: prompt programs: show, run, test, tune.
#include "apps/prompt.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "apps/model_writer.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/progress.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/generation_flags.h"
#include "cli/json_lines.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/with_engine.h"

namespace makar {
namespace {

struct PromptCommand {
  ModelOptions model;
  GenerationFlags flags;
  std::string file, input;
  std::vector<std::string> sets;
  bool json = false, raw = false;

  void declare(Options& options) {
    options.positional("PROGRAM", &file, "a prompt program (YAML)").required = true;
    options.add("--json", &json, "print JSON");
  }
  void declare_model(Options& options) {
    model.declare(options);
    options.group("Model");
    options.add("--raw", &raw, "continue the text of the prompt, even if the model has a chat template");
    declare_device(options, model.device);
    model.declare_chat(options);
    flags.declare(options);
  }
  void declare_fields(Options& options) {
    options.add("--set", &sets, "value of a field of the program; may be repeated", "NAME=VALUE");
  }
  Result<PromptProgram> program() const {
    MAKAR_TRY(const std::string text, read_file(file, size_t{1} << 20));
    return read_prompt_program(text, file);
  }
  Result<Json> fields() const {
    Json out = Json::object();
    for (const std::string& one : sets) {
      const size_t equals = one.find('=');
      if (equals == one.npos || equals == 0)
        return error_at("--set", "expected NAME=VALUE, got {}", quote(one));
      out[one.substr(0, equals)] = one.substr(equals + 1);
    }
    return out;
  }
};

// Records of a JSONL file.
Result<std::vector<Json>> read_records(const std::string& path) {
  std::vector<Json> out;
  MAKAR_RETURN_IF_ERROR(each_json_line(path, [&](Json one, const std::string& place) -> Status {
    if (!one.is_object()) return error_at(place, "expected an object");
    out.push_back(std::move(one));
    return Done{};
  }));
  if (out.empty()) return error_at(path, "has no records");
  return out;
}

// Opens the model, calls `use`, and returns its exit code.
int with_model(PromptCommand& c, const Options& options, const std::function<int(const PromptModel&)>& use) {
  if (const Status checked = c.flags.check(options); !checked.ok()) return report(checked.error()), 2;
  if (c.flags.generation.answers != 1)
    return report(error_at("--answers", "a prompt gets one reply; remove the option")), 2;
  return with_engine(c.model, c.flags, [&](Engine& engine, const LanguageModel& language) {
    ModelWriter writer(engine, language, c.flags.generation);
    writer.use_plain_text(c.raw);
    const auto messages = [](const std::string& text) {
      return Json::array({{{"role", "user"}, {"content", text}}});
    };
    constexpr double kMaxReplySeconds = 86400;  // time limit per reply
    PromptModel model;
    model.write = [&](const std::string& text, const std::string& schema,
                      const std::vector<std::string>& stop, int64_t tokens, uint64_t sample) {
      writer.stop_at(stop);
      return writer(messages(text), schema, tokens, kMaxReplySeconds, sample);
    };
    model.fits = [&](const std::string& text, int64_t tokens) -> Result<bool> {
      MAKAR_TRY(const auto ids, writer.encode(messages(text)));
      return writer.context_length() <= 0 ||
             static_cast<int64_t>(ids.size()) + tokens <= writer.context_length();
    };
    return use(model);
  });
}

int run_show(const std::vector<std::string>& arguments) {
  PromptCommand c;
  Options options("prompt show",
                  "Print the text of each prompt of a program, with all examples; outputs of other "
                  "prompts are shown as {name}.",
                  "makar prompt show translate.yaml --set word=Chien");
  c.declare(options);
  c.declare_fields(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  auto fields = c.fields();
  if (!fields.ok()) return report(fields.error()), 2;
  const auto program = c.program();
  if (!program.ok()) return report(program.error());
  PromptModel stub;  // every prompt fits: nothing is generated
  stub.fits = [](const std::string&, int64_t) { return Result<bool>(true); };
  for (const Prompt& prompt : program->prompts) {
    const auto built = build_prompt(prompt, *fields, stub);
    if (!built.ok()) return report(built.error().in(c.file));
    const Json line = {{"prompt", prompt.name}, {"text", built->text}, {"shots", built->shots}};
    if (!print_out(c.json
                       ? dump(line) + "\n"
                       : (program->prompts.size() > 1 ? "[" + prompt.name + "]\n" : "") + built->text + "\n"))
      return 1;
    (*fields)[prompt.name] = "{" + prompt.name + "}";
  }
  return 0;
}

int run_run(const std::vector<std::string>& arguments) {
  PromptCommand c;
  bool trace = false;
  Options options("prompt run",
                  "Run a prompt program and print its output; with --input, one output per record.",
                  "makar prompt run translate.yaml -m MODEL --set word=Chien");
  c.declare(options);
  c.declare_fields(options);
  options.add("--input", &c.input, "records with the fields, one JSON object per line", "FILE");
  options.add("--trace", &trace, "print every prompt and reply before the output");
  c.declare_model(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto fields = c.fields();
  if (!fields.ok()) return report(fields.error()), 2;
  const auto program = c.program();
  if (!program.ok()) return report(program.error());
  std::vector<Json> records = {Json::object()};
  if (!c.input.empty()) {
    auto read = read_records(c.input);
    if (!read.ok()) return report(read.error());
    records = std::move(*read);
  }
  return with_model(c, options, [&](const PromptModel& model) {
    for (Json record : records) {
      record.update(*fields);
      const auto run = run_prompt(*program, record, model, c.flags.generation.sampler.seed);
      if (!run.ok()) return report(run.error());
      Json replies = Json::array();
      for (const PromptReply& r : run->replies)
        replies.push_back({{"prompt", r.prompt}, {"sent", r.sent}, {"text", r.text}});
      Json line = {{"output", run->output},
                   {"outputs", run->outputs},
                   {"version", program->version},
                   {"usage", {{"prompt_tokens", run->prompt_tokens}, {"completion_tokens", run->tokens}}}};
      if (trace) line["replies"] = replies;
      std::string text;
      if (!c.json && trace)
        for (const PromptReply& r : run->replies)
          text += fmt::format("[{}] {}\n=> {}\n\n", r.prompt, r.sent, r.text);
      if (!print_out(c.json ? dump(line) + "\n" : text + run->output + "\n")) return 1;
    }
    return 0;
  });
}

int run_test(const std::vector<std::string>& arguments) {
  PromptCommand c;
  std::string save, baseline;
  Options options(
      "prompt test",
      "Run the tests of a prompt program. Exit code 1 if one fails; with --baseline, if one fails that "
      "passed there.",
      "makar prompt test translate.yaml -m MODEL --baseline v1.json");
  c.declare(options);
  options.add("--save", &save, "write the results, for --baseline of a later version", "FILE");
  options.add("--baseline", &baseline,
              "results of an earlier version: only tests that passed there must pass", "FILE");
  c.declare_model(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto program = c.program();
  if (!program.ok()) return report(program.error());
  if (program->tests.empty()) return report(error_at(c.file, "has no tests; add a list 'tests'"));
  std::map<std::string, bool> passed_before;
  std::string earlier_version;
  if (!baseline.empty()) {
    const auto read = read_json(baseline);
    if (!read.ok()) return report(read.error());
    if (!read->is_object() || !read->contains("tests") || !(*read)["tests"].is_array())
      return report(error_at(baseline, "expected the results that --save writes"));
    earlier_version = read->value("version", Json()).is_string() ? (*read)["version"].get<std::string>() : "";
    for (const Json& one : (*read)["tests"])
      if (one.is_object() && one.value("name", Json()).is_string())
        passed_before[one["name"].get<std::string>()] = one.value("passed", Json()) == Json(true);
  }
  return with_model(c, options, [&](const PromptModel& model) {
    Json results = Json::array();
    int64_t passed = 0, regressed = 0;
    std::string lines;
    for (const PromptTest& test : program->tests) {
      const auto run = run_prompt(*program, test.fields, model, c.flags.generation.sampler.seed);
      if (!run.ok()) return report(run.error());
      const std::string failure = test_failure(test, run->output);
      const auto previous = passed_before.find(test.name);
      const bool regression = !failure.empty() && previous != passed_before.end() && previous->second;
      passed += failure.empty(), regressed += regression;
      lines += fmt::format("{} {}{}\n", failure.empty() ? "pass" : "FAIL", test.name,
                           failure.empty() ? "" : (regression ? " (passed before): " : ": ") + failure);
      results.push_back(
          {{"name", test.name}, {"passed", failure.empty()}, {"output", run->output}, {"failure", failure}});
    }
    const Json all = {{"program", program->name}, {"version", program->version},
                      {"passed", passed},         {"failed", static_cast<int64_t>(results.size()) - passed},
                      {"regressed", regressed},   {"tests", results}};
    if (!save.empty())
      if (const Status written = write_file(save, dump(all, 1) + "\n"); !written.ok())
        return report(written.error());
    const std::string summary = fmt::format(
        "{} version {}: {} of {} pass{}\n", program->name, program->version, passed, results.size(),
        baseline.empty() ? ""
                         : fmt::format("; {} that passed in version {} fail", regressed, earlier_version));
    if (!print_out(c.json ? dump(all) + "\n" : lines + summary)) return 1;
    return (baseline.empty() ? passed == static_cast<int64_t>(results.size()) : regressed == 0) ? 0 : 1;
  });
}

// The program with another instruction and other examples, as YAML.
std::string changed_program(const std::string& text, const TuneResult& result, const std::string& prompt) {
  YAML::Node root = YAML::Load(text);
  YAML::Node target = root;
  if (root["prompts"])
    for (YAML::Node one : root["prompts"])
      if (one["name"] && one["name"].Scalar() == prompt) target = one;
  if (!result.instruction.empty()) target["instruction"] = result.instruction;
  YAML::Node examples(YAML::NodeType::Sequence);
  for (const Json& example : result.examples) {
    YAML::Node one(YAML::NodeType::Map);
    for (const auto& [key, value] : example.items())
      one[key] = value.is_string() ? value.get<std::string>() : dump(value);
    examples.push_back(one);
  }
  if (examples.size() > 0) target["examples"] = examples;
  int64_t version = 0;
  if (root["version"]) version = std::strtoll(root["version"].Scalar().c_str(), nullptr, 10);
  root["version"] = std::to_string(std::max<int64_t>(version, 1) + 1);
  YAML::Emitter out;
  out << root;
  return std::string(out.c_str()) + "\n";
}

struct TuneCommand : PromptCommand {
  TuneOptions tune;
  std::string pool, records, instructions, output;
};

void declare_tune(Options& options, TuneCommand& c) {
  c.declare(options);
  options
      .add("--data", &c.records, "records with the fields and \"output\", one JSON object per line", "FILE")
      .required = true;
  options.add("--pool", &c.pool,
              "records that examples are drawn from; the program's own examples if not set", "FILE");
  options.add("--instructions", &c.instructions, "instructions to try, one per line", "FILE");
  options.add("--trials", &c.tune.trials, "sets of examples that are tried", "N");
  options.add("--shots", &c.tune.shots, "examples per set", "N");
  options.add("--metric", &c.tune.metric, "exact, contains or f1, as SQuAD normalises answers", "NAME");
  options.add("-o --output", &c.output, "write the best program here", "FILE").required = true;
  c.declare_model(options);
}

// Errors are bad usage.
Status check_tune(const TuneOptions& tune) {
  if (const auto known = score_output(tune.metric, "", ""); !known.ok()) return known.error();
  if (tune.trials < 0 || tune.trials > 10000)
    return error_at("--trials", "must be 0 to 10000, got {}", tune.trials);
  if (tune.shots < 0 || tune.shots > 1000)
    return error_at("--shots", "must be 0 to 1000, got {}", tune.shots);
  return Done{};
}

// The lines of a file that are not empty.
Result<std::vector<std::string>> read_instructions(const std::string& path) {
  MAKAR_TRY(const std::string lines, read_file(path, size_t{1} << 20));
  std::vector<std::string> out;
  for (size_t at = 0; at < lines.size();) {
    const size_t line = std::min(lines.find('\n', at), lines.size());
    if (line > at) out.push_back(lines.substr(at, line - at));
    at = line + 1;
  }
  return out;
}

bool print_tuned(const TuneCommand& c, const TuneResult& result) {
  if (c.json) {
    Json tried = Json::array();
    for (const auto& [what, score] : result.tried) tried.push_back({{"candidate", what}, {"score", score}});
    return print_out(dump({{"metric", c.tune.metric},
                           {"before", result.before},
                           {"after", result.after},
                           {"instruction", result.instruction},
                           {"examples", result.examples},
                           {"tried", tried}}) +
                     "\n");
  }
  std::string out;
  for (const auto& [what, score] : result.tried) out += fmt::format("{:.4f}  {}\n", score, what);
  return print_out(out + fmt::format("{}: {:.4f} before, {:.4f} after; written to {}\n", c.tune.metric,
                                     result.before, result.after, c.output));
}

int run_tune(const std::vector<std::string>& arguments) {
  TuneCommand c;
  Options options(
      "prompt tune",
      "Search for the instruction and the examples of a program's last prompt that score best on records, "
      "and write the next version.",
      "makar prompt tune translate.yaml -m MODEL --data dev.jsonl --pool train.jsonl -o better.yaml");
  declare_tune(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_tune(c.tune); !checked.ok()) return report(checked.error()), 2;
  const auto text = read_file(c.file, size_t{1} << 20);
  if (!text.ok()) return report(text.error());
  const auto program = c.program();
  if (!program.ok()) return report(program.error());
  const auto data = read_records(c.records);
  if (!data.ok()) return report(data.error());
  std::vector<Json> choices = program->prompts.back().examples;
  if (!c.pool.empty()) {
    auto read = read_records(c.pool);
    if (!read.ok()) return report(read.error());
    choices = std::move(*read);
  }
  if (!c.instructions.empty()) {
    auto read = read_instructions(c.instructions);
    if (!read.ok()) return report(read.error());
    c.tune.instructions = std::move(*read);
  }
  return with_model(c, options, [&](const PromptModel& model) {
    c.tune.seed = c.flags.generation.sampler.seed;
    Progress progress;
    c.tune.on_progress = [&](size_t done, size_t all, double) { progress.show("candidates", done, all); };
    const auto result = tune_prompt(*program, choices, *data, model, c.tune);
    if (!result.ok()) return report(result.error());
    const std::string tuned = changed_program(*text, *result, program->prompts.back().name);
    if (const Status written = write_file(c.output, tuned); !written.ok()) return report(written.error());
    return print_tuned(c, *result) ? 0 : 1;
  });
}

constexpr Command kPromptCommands[] = {
    {"show", "print the text of a program's prompts", run_show},
    {"run", "run a program", run_run},
    {"test", "run the tests of a program", run_test},
    {"tune", "search for a better instruction and better examples", run_tune},
};

}  // namespace

int run_prompt_command(const std::vector<std::string>& arguments) {
  return run_subcommand("prompt", "Run prompt programs: versioned files of prompts, examples and tests.",
                        "makar prompt run translate.yaml -m MODEL --set word=Chien", kPromptCommands,
                        arguments);
}

}  // namespace makar
