#include "train/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "data/yaml.h"

namespace makar {
namespace {

constexpr size_t kMaxStages = 256, kMaxWords = 1024, kMaxWordBytes = size_t{1} << 16;

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string::npos;
}

// Replaces each {variable} of the word by its value; "{{" becomes a brace.
Result<std::string> substitute(const std::string& word, const std::map<std::string, std::string>& variables,
                               const std::string& place) {
  std::string out;
  for (size_t at = 0; at < word.size();) {
    if (word.compare(at, 2, "{{") == 0) {
      out += '{', at += 2;
      continue;
    }
    const size_t end = word[at] == '{' ? word.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      out += word[at++];
      continue;
    }
    const std::string name = word.substr(at + 1, end - at - 1);
    const auto value = variables.find(name);
    if (value == variables.end()) {
      std::vector<std::string> known;
      for (const auto& variable : variables) known.push_back(variable.first);
      return error_at(place, "unknown variable {}{}; write a literal brace as {{{{",
                      quote(name.substr(0, 80)), did_you_mean(name, known));
    }
    out += value->second, at = end + 1;
    if (out.size() > kMaxWordBytes)
      return error_of(Error::Kind::kLimit, place, "a word has more than {} bytes", kMaxWordBytes);
  }
  return out;
}

Status read_variables(const YAML::Node& node, const std::string& place,
                      const std::map<std::string, std::string>& overrides, Pipeline& out) {
  if (!node || !node.IsMap()) return error_at(place, "expected 'variables', a mapping of NAME: VALUE");
  for (const auto& entry : node) {
    const std::string where = yaml_place(entry.first, place);
    if (!entry.first.IsScalar() || !is_name(entry.first.Scalar()))
      return error_at(where, "the name of a variable must consist of 1 to 64 letters, digits, '-' and '_'");
    if (!entry.second.IsScalar() && !entry.second.IsNull())
      return error_at(where, "the value of a variable must be a string");
    const std::string& name = entry.first.Scalar();
    const auto replacement = overrides.find(name);
    if (replacement == overrides.end() && entry.second.IsNull())
      return error_at(where, "{0} has no value; set it with {0}=VALUE", name);
    if (!out.variables
             .emplace(name, replacement != overrides.end() ? replacement->second : entry.second.Scalar())
             .second)
      return error_at(where, "{} is given twice", quote(name));
  }
  std::vector<std::string> known;
  for (const auto& variable : out.variables) known.push_back(variable.first);
  for (const auto& [name, value] : overrides)
    if (!out.variables.contains(name))
      return error_at(name, "is not a variable of {}{}", place, did_you_mean(name, known));
  if (!out.variables.contains("folder") || out.folder().empty())
    return error_at(place, "expected the variable 'folder': the folder of the results and the state");
  return Done{};
}

Result<PipelineStage> read_stage(const YAML::Node& node, const std::string& file, const Pipeline& pipeline) {
  const std::string place = yaml_place(node, file);
  if (!node.IsMap()) return error_at(place, "expected a stage: a mapping with 'name' and 'command'");
  for (const auto& entry : node)
    if (!entry.first.IsScalar() || (entry.first.Scalar() != "name" && entry.first.Scalar() != "command"))
      return error_at(yaml_place(entry.first, file), "a stage has 'name' and 'command' only");
  PipelineStage out;
  if (!node["name"] || !node["name"].IsScalar() || !is_name(node["name"].Scalar()))
    return error_at(place, "'name': expected letters, digits, '-' and '_'");
  out.name = node["name"].Scalar();
  const YAML::Node words = node["command"];
  if (!words || !words.IsSequence() || words.size() == 0 || words.size() > kMaxWords)
    return error_at(place, "'command': expected a list of words, such as [reward, -m, DIR]");
  for (const auto& word : words) {
    const std::string where = yaml_place(word, file);
    if (!word.IsScalar()) return error_at(where, "each word of a command must be a string");
    MAKAR_TRY(out.command.emplace_back(), substitute(word.Scalar(), pipeline.variables, where));
  }
  return out;
}

}  // namespace

Result<Pipeline> parse_pipeline(const std::string& text, const std::string& place,
                                const std::map<std::string, std::string>& overrides) {
  MAKAR_TRY(const YAML::Node root, parse_yaml(text, place, "pipeline"));
  if (!root.IsMap()) return error_at(place, "expected 'variables' and 'stages'");
  for (const auto& entry : root)
    if (!entry.first.IsScalar() || (entry.first.Scalar() != "variables" && entry.first.Scalar() != "stages"))
      return error_at(yaml_place(entry.first, place), "expected 'variables' and 'stages' only");
  Pipeline out;
  MAKAR_RETURN_IF_ERROR(read_variables(root["variables"], place, overrides, out));
  const YAML::Node stages = root["stages"];
  if (!stages || !stages.IsSequence() || stages.size() == 0 || stages.size() > kMaxStages)
    return error_at(place, "'stages': expected a list of 1 to {} stages", kMaxStages);
  for (const auto& node : stages) {
    const std::string where = yaml_place(node, place);
    MAKAR_TRY(PipelineStage stage, read_stage(node, place, out));
    const auto same_name = [&](const PipelineStage& other) { return other.name == stage.name; };
    if (std::any_of(out.stages.begin(), out.stages.end(), same_name))
      return error_at(where, "two stages have the name {}", quote(stage.name));
    out.stages.push_back(std::move(stage));
  }
  return out;
}

Result<PipelineState> PipelineState::open(const Pipeline& pipeline) {
  PipelineState out;
  out.path_ = pipeline.folder() + "/pipeline.json";
  if (!is_file(out.path_)) return out;
  MAKAR_TRY(const Json json, read_json(out.path_));
  if (!json.is_object() || !json.contains("finished") || !json["finished"].is_array())
    return error_at(out.path_, "expected an object with 'finished'; remove the file to run all stages again");
  for (const Json& entry : json["finished"]) {
    const Json name = entry.is_object() ? entry.value("name", Json()) : Json();
    if (!name.is_string())
      return error_at(out.path_, "a finished stage has no name; remove the file to run all stages again");
    for (const PipelineStage& stage : pipeline.stages)
      if (stage.name == name && entry.value("command", Json()) != Json(stage.command))
        return error_at(out.path_,
                        "stage '{}' has finished with another command; use another folder (folder=DIR), or "
                        "remove this file to run all stages again",
                        stage.name);
    out.finished_.insert(name.get<std::string>());
    out.stages_.push_back(entry);
  }
  return out;
}

Status PipelineState::add(const PipelineStage& stage, double seconds) {
  stages_.push_back({{"name", stage.name}, {"command", stage.command}, {"seconds", seconds}});
  finished_.insert(stage.name);
  return write_file(path_, Json{{"finished", stages_}}.dump(2) + "\n");
}

}  // namespace makar
