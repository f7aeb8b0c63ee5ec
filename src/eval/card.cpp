#include "eval/card.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/markdown.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// Fields of config.json and their labels on the card.
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
    std::set<std::string> subtasks;  // left out: their group is in the table
    for (const auto& group : groups.items())
      if (group.value().is_array())
        for (const Json& name : group.value())
          if (name.is_string()) subtasks.insert(name.get<std::string>());
    for (const auto& task : one.results["results"].items()) {
      if (is_risk(task.key()) != risks || subtasks.count(task.key()) || !task.value().is_object()) continue;
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

Result<std::string> model_facts(const std::string& model) {
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
    MAKAR_TRY(const std::string text, read_file(model + "/config.json", kMaxConfigBytes));
    MAKAR_TRY(const Json config, parse_json(text, model + "/config.json"));
    for (const auto& [key, label] : kFacts)
      if (config.is_object() && config.contains(key))
        out += fmt::format("| {} | {} |\n", label,
                           config[key].is_string() ? config[key].get<std::string>() : config[key].dump());
  }
  return "| | |\n|---|---|\n" + out +
         fmt::format("| size on disk | {:.1f} MB |\n", static_cast<double>(bytes) / 1e6);
}

std::string cell(const Json& value) {
  return markdown_cell(value.is_string() ? value.get<std::string>() : dump(value));
}

// Facts by name. The name of a fact in a nested object is OBJECT.NAME.
void add_facts(const Json& manifest, const std::string& prefix,
               std::vector<std::pair<std::string, Json>>& out) {
  for (const auto& item : manifest.items())
    if (item.value().is_object())
      add_facts(item.value(), prefix + item.key() + ".", out);
    else if (!item.value().is_null())
      out.emplace_back(prefix + item.key(), item.value());
}

std::string manifest_text(const Json& manifest) {
  std::vector<std::pair<std::string, Json>> facts;
  if (manifest.is_object()) add_facts(manifest, "", facts);
  if (facts.empty()) return "Not stated.\n";
  std::string out = "| | |\n|---|---|\n";
  for (const auto& [name, value] : facts) out += fmt::format("| {} | {} |\n", cell(name), cell(value));
  return out;
}

// The facts of the manifest that document a criterion of the rubric: those with a part of OBJECT.NAME that
// begins with one of these words.
struct CriterionEvidence {
  const char* criterion;
  std::vector<const char*> words;
};
const std::vector<CriterionEvidence>& evidence() {
  static const std::vector<CriterionEvidence> all = {
      {"data sources", {"data", "dataset"}},
      {"data governance", {"governance", "data_governance", "consent", "privacy"}},
      {"copyrighted data", {"copyright", "license", "data_license"}},
      {"compute", {"compute", "hardware", "device", "gpu", "flops", "hours", "parameters", "seconds"}},
      {"energy", {"energy", "kwh", "co2", "emissions", "watts"}},
      {"capabilities and limitations", {"capabilities", "limits", "limitations", "intended"}},
      {"risks and mitigations", {"risks", "mitigations", "safety"}},
      {"evaluations", {"evaluation"}},
      {"testing", {"testing", "red_team", "audit"}},
      {"machine-generated content", {"watermark", "disclosure", "machine_generated"}},
      {"member states", {"member_states", "countries", "regions"}},
      {"downstream documentation", {"documentation", "homepage", "contact", "repository"}}};
  return all;
}

size_t score_count(const std::vector<EvaluatedModel>& results, bool risks) {
  const std::string table = scores_table(results, risks);
  const auto lines = std::count(table.begin(), table.end(), '\n');
  return lines > 2 ? static_cast<size_t>(lines - 2) : 0;
}

// The facts and the number of scores on the card that document a criterion.
std::string documented_by(const std::string& criterion, const CardInput& input) {
  std::vector<std::pair<std::string, Json>> facts;
  if (input.manifest.is_object()) add_facts(input.manifest, "", facts);
  std::vector<std::string> out;
  for (const CriterionEvidence& one : evidence())
    if (criterion == one.criterion)
      for (const auto& fact : facts) {
        const std::string name = "." + fact.first;  // so that a word may begin any part of OBJECT.NAME
        if (std::any_of(one.words.begin(), one.words.end(),
                        [&](const char* word) { return name.find(std::string(".") + word) != name.npos; }))
          out.push_back(cell(fact.first));
      }
  const size_t capabilities = score_count(input.results, false), risks = score_count(input.results, true);
  const size_t scores = criterion == "capabilities and limitations" ? capabilities
                        : criterion == "risks and mitigations"      ? risks
                        : criterion == "evaluations"                ? capabilities + risks
                                                                    : 0;
  if (scores > 0) out.push_back(fmt::format("{} scores", scores));
  return out.empty() ? "nothing" : fmt::format("{}", fmt::join(out, ", "));
}

std::string rubric_text(const CardInput& input) {
  std::string out = "| point | score of 4 | stated above |\n|---|---|---|\n";
  const auto* ratings = input.rubric && input.rubric->criteria.count(input.name)
                            ? &input.rubric->criteria.at(input.name)
                            : nullptr;
  for (const std::string& criterion : rubric_criteria())
    out += fmt::format(
        "| {} | {} | {} |\n", criterion,
        ratings && ratings->count(criterion) ? fmt::format("{:.2f}", ratings->at(criterion)) : "not rated",
        documented_by(criterion, input));
  if (ratings)
    out += fmt::format("\nTotal: {:.1f} of 48, {} of 12 points rated, {} raters",
                       input.rubric->totals.at(input.name), ratings->size(), input.rubric->raters);
  if (ratings && input.rubric->kappa) out += fmt::format(", kappa {:.2f}", *input.rubric->kappa);
  return out + (ratings ? ".\n" : "");
}

}  // namespace

Result<std::string> model_card(const CardInput& input) {
  MAKAR_TRY(const std::string details, model_facts(input.model));
  std::string out = fmt::format("# Model card: {}\n\n## Model\n\n{}\n## Training\n\n{}\n", input.name,
                                details, manifest_text(input.manifest));
  out += "## Capabilities\n\n" + scores_table(input.results, false) +
         "\n## Risks: bias, truthfulness, safety\n\n" + scores_table(input.results, true);
  out +=
      "\n## Limits\n\nScores hold for the tasks, prompts and settings of the results files. What is not in "
      "the tables was not measured: "
      "do not rely on it.\n";
  return out + "\n## Regulatory criteria\n\n" + rubric_text(input);
}

}  // namespace makar
