// Prompt programs from YAML.
#include <algorithm>
#include <set>

#include "apps/prompt.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "eval/task_reader.h"

namespace makar {
namespace {

constexpr size_t kMaxPrompts = 100, kMaxExamples = 1000, kMaxTests = 1000;
const std::vector<std::string> kPromptKeys = {
    "name",       "instruction", "context", "input",  "example",   "indicator",
    "separator",  "examples",    "shots",   "order",  "technique", "samples",
    "follow_ups", "max_tokens",  "stop",    "answer", "schema",    "needs"};

template <class T>
Result<T> choice(const TaskReader& in, const std::string& key, const std::string& fallback,
                 const std::vector<std::string>& names) {
  MAKAR_TRY(const std::string text, in.text(key, fallback));
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    return in.error(key, fmt::format("unknown {}{}; expected one of: {}", quote(text),
                                     did_you_mean(text, names), fmt::join(names, ", ")));
  return static_cast<T>(found - names.begin());
}

Result<Prompt> read_prompt(const TaskReader& in, const std::string& name) {
  Prompt out;
  out.name = name;
  MAKAR_TRY(out.instruction, in.field_template("instruction"));
  MAKAR_TRY(out.context, in.field_template("context"));
  MAKAR_TRY(out.input, in.field_template("input"));
  MAKAR_TRY(out.example, in.field_template("example"));
  MAKAR_TRY(out.indicator, in.text("indicator", ""));
  MAKAR_TRY(out.separator, in.text("separator", "\n\n"));
  if (out.input.empty() && out.instruction.empty())
    return in.error("input", "a prompt needs an input or an instruction");
  MAKAR_TRY(const auto examples, in.maps("examples", kMaxExamples));
  for (const TaskReader& one : examples) {
    MAKAR_TRY(Json example, one.json());
    out.examples.push_back(std::move(example));
  }
  if (!out.examples.empty() && out.example.empty())
    return in.error("example",
                    "is missing: the template of one example, such as \"{{input}} => {{output}}\"");
  MAKAR_TRY(const std::string shots, in.text("shots", "fill"));
  if (shots != "fill") {
    MAKAR_TRY(out.shots, in.integer("shots", 0, 0, static_cast<int64_t>(kMaxExamples)));
  }
  MAKAR_TRY(out.order, choice<ExampleOrder>(in, "order", "first", {"first", "similar", "random"}));
  MAKAR_TRY(out.technique, choice<Technique>(in, "technique", "direct",
                                             {"direct", "chain-of-thought", "self-consistency", "self-ask",
                                              "least-to-most"}));
  MAKAR_TRY(out.samples, in.integer("samples", 5, 1, 100));
  MAKAR_TRY(out.follow_ups, in.integer("follow_ups", 5, 1, 50));
  MAKAR_TRY(out.max_tokens, in.integer("max_tokens", 256, 1, 1 << 20));
  MAKAR_TRY(out.stop, in.list("stop", {}));
  MAKAR_TRY(const std::string answer, in.text("answer", ""));
  if (!answer.empty()) {
    MAKAR_TRY(out.answer, in.regex("answer"));
  }
  MAKAR_TRY(out.schema, in.text("schema", ""));
  if (!out.schema.empty()) {
    const auto parsed = parse_json(out.schema, "schema");
    if (!parsed.ok()) return in.error("schema", "expected a JSON schema as text: " + parsed.error().text());
    if (out.technique != Technique::kDirect)
      return in.error("schema",
                      "requires the technique direct; put the schema in a prompt that follows this one");
  }
  MAKAR_TRY(out.needs, in.list("needs", {}));
  return out;
}

Result<PromptTest> read_test(const TaskReader& in, size_t number) {
  MAKAR_RETURN_IF_ERROR(in.only({"name", "fields", "equals", "contains", "lacks", "matches"}));
  PromptTest out;
  MAKAR_TRY(out.name, in.text("name", fmt::format("test {}", number)));
  MAKAR_TRY(const auto fields, in.map("fields"));
  out.fields = Json::object();
  if (fields) {
    MAKAR_TRY(out.fields, fields->json());
  }
  const auto read_optional = [&](const char* key, std::optional<std::string>& to) -> Status {
    MAKAR_TRY(const std::string value, in.text(key, ""));
    if (!value.empty()) to = value;
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(read_optional("equals", out.equals));
  MAKAR_RETURN_IF_ERROR(read_optional("contains", out.contains));
  MAKAR_RETURN_IF_ERROR(read_optional("lacks", out.lacks));
  MAKAR_TRY(const std::string pattern, in.text("matches", ""));
  if (!pattern.empty()) {
    MAKAR_TRY(out.matches, in.regex("matches"));
  }
  if (!out.equals && !out.contains && !out.lacks && !out.matches)
    return in.error("fields", "a test needs equals, contains, lacks or matches");
  return out;
}

// Topological order: each prompt follows those it needs, otherwise in the order of the file.
Result<std::vector<Prompt>> topological_order(std::vector<Prompt> prompts, const TaskReader& in) {
  std::vector<std::string> names;
  for (const Prompt& one : prompts) {
    if (std::find(names.begin(), names.end(), one.name) != names.end())
      return in.error("prompts", fmt::format("two prompts have the name {}; rename one", quote(one.name)));
    names.push_back(one.name);
  }
  std::vector<Prompt> out;
  std::set<std::string> done;
  while (!prompts.empty()) {
    const auto ready = std::find_if(prompts.begin(), prompts.end(), [&](const Prompt& one) {
      return std::all_of(one.needs.begin(), one.needs.end(),
                         [&](const auto& need) { return done.contains(need); });
    });
    if (ready == prompts.end()) {
      for (const std::string& need : prompts.front().needs)
        if (std::find(names.begin(), names.end(), need) == names.end())
          return in.error("prompts",
                          fmt::format("{} needs {}, which is not a prompt of this file{}",
                                      quote(prompts.front().name), quote(need), did_you_mean(need, names)));
      return in.error("prompts",
                      fmt::format("{} needs itself, through other prompts", quote(prompts.front().name)));
    }
    done.insert(ready->name);
    out.push_back(std::move(*ready));
    prompts.erase(ready);
  }
  return out;
}

}  // namespace

Result<PromptProgram> read_prompt_program(const std::string& text, const std::string& place) {
  MAKAR_TRY(const TaskReader in, TaskReader::open(text, place));
  std::vector<std::string> keys = kPromptKeys;
  keys.insert(keys.end(), {"version", "tests", "prompts"});
  MAKAR_RETURN_IF_ERROR(in.only(keys));
  PromptProgram out;
  out.place = place;
  MAKAR_TRY(out.name, in.text("name", "prompt"));
  MAKAR_TRY(out.version, in.text("version", "1"));
  MAKAR_TRY(const auto prompt_list, in.maps("prompts", kMaxPrompts));
  if (prompt_list.empty()) {
    MAKAR_TRY(Prompt one, read_prompt(in, out.name));
    if (!one.needs.empty()) return in.error("needs", "is only for prompts of a list; remove it");
    out.prompts.push_back(std::move(one));
  } else {
    MAKAR_RETURN_IF_ERROR(in.only({"name", "version", "tests", "prompts"}));
    std::vector<Prompt> prompts;
    for (const TaskReader& one : prompt_list) {
      MAKAR_RETURN_IF_ERROR(one.only(kPromptKeys));
      MAKAR_TRY(const std::string name, one.text("name", ""));
      if (name.empty()) return one.error("name", "is missing");
      MAKAR_TRY(Prompt prompt, read_prompt(one, name));
      prompts.push_back(std::move(prompt));
    }
    MAKAR_TRY(out.prompts, topological_order(std::move(prompts), in));
  }
  MAKAR_TRY(const auto tests, in.maps("tests", kMaxTests));
  for (const TaskReader& one : tests) {
    MAKAR_TRY(PromptTest test, read_test(one, out.tests.size() + 1));
    out.tests.push_back(std::move(test));
  }
  return out;
}

}  // namespace makar
