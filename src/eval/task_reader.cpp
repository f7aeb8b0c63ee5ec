#include "eval/task_reader.h"

#include <charconv>
#include <set>

#include "base/nearest.h"
#include "base/quote.h"

namespace makar {
namespace {

constexpr size_t kMaxItems = 10'000;  // of a list or map

Result<Json> to_json(const YAML::Node& node, const std::string& place, size_t& nodes) {
  if (++nodes > kMaxItems) return error_of(Error::Kind::kLimit, place, "has more than {} values", kMaxItems);
  if (node.IsScalar()) return Json(node.Scalar());
  Json out;
  if (node.IsSequence()) {
    out = Json::array();
    for (const YAML::Node& one : node) {
      MAKAR_TRY(Json value, to_json(one, place, nodes));
      out.push_back(std::move(value));
    }
  } else if (node.IsMap()) {
    out = Json::object();
    for (const auto& pair : node) {
      MAKAR_TRY(Json value, to_json(pair.second, place, nodes));
      out[pair.first.IsScalar() ? pair.first.Scalar() : ""] = std::move(value);
    }
  }
  return out;
}

}  // namespace

Result<TaskReader> TaskReader::open(const std::string& text, const std::string& place) {
  MAKAR_TRY(YAML::Node root, parse_yaml(text, place, "task"));
  if (!root.IsMap()) return error_at(place, "a task is a map of keys (task, dataset_path, doc_to_text, ...)");
  return TaskReader(std::move(root), place);
}

YAML::Node TaskReader::find(const std::string& key) const {
  for (const auto& pair : node_)
    if (pair.first.IsScalar() && pair.first.Scalar() == key) return pair.second;
  return YAML::Node(YAML::NodeType::Undefined);
}

Error TaskReader::error(const std::string& key, const std::string& what) const {
  for (const auto& pair : node_)
    if (pair.first.IsScalar() && pair.first.Scalar() == key)
      return error_at(yaml_place(pair.first, place_), "'{}': {}", key, what);
  return error_at(yaml_place(node_, place_), "'{}': {}", key, what);
}

Status TaskReader::only(const std::vector<std::string>& keys) const {
  std::set<std::string> seen;
  if (node_.size() > kMaxItems)
    return error_of(Error::Kind::kLimit, yaml_place(node_, place_), "has more than {} keys", kMaxItems);
  for (const auto& pair : node_) {
    const std::string at = yaml_place(pair.first, place_);
    if (!pair.first.IsScalar()) return error_at(at, "expected the name of a key");
    const std::string& key = pair.first.Scalar();
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      return error_at(at, "unknown key {}{}", quote(key), did_you_mean(key, keys));
    if (!seen.insert(key).second) return error_at(at, "the key '{}' is given twice", key);
  }
  return Done{};
}

bool TaskReader::is_list(const std::string& key) const {
  const YAML::Node node = find(key);
  return node.IsDefined() && node.IsSequence();
}

Result<std::string> TaskReader::scalar(const YAML::Node& node, const std::string& key) const {
  const std::string at = yaml_place(node, place_);
  if (node.Tag() == "!function")
    return error_of(Error::Kind::kUnsupported, at, "'{}': Python functions are not run; write a template",
                    key);
  if (!node.IsScalar()) return error_at(at, "'{}' expects one value", key);
  return node.Scalar();
}

Result<std::string> TaskReader::text(const std::string& key, const std::string& fallback) const {
  const YAML::Node node = find(key);
  if (!node.IsDefined() || node.IsNull()) return fallback;
  return scalar(node, key);
}

Result<double> TaskReader::number(const std::string& key, double fallback, double low, double high) const {
  MAKAR_TRY(const std::string word, text(key, ""));
  if (word.empty()) return fallback;
  double value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (code != std::errc() || end != word.data() + word.size() || !(value >= low && value <= high))
    return error(key, fmt::format("expected a number from {} to {}, got {}", low, high, quote(word)));
  return value;
}

Result<int64_t> TaskReader::integer(const std::string& key, int64_t fallback, int64_t low,
                                    int64_t high) const {
  MAKAR_TRY(const double value,
            number(key, static_cast<double>(fallback), static_cast<double>(low), static_cast<double>(high)));
  const auto out = static_cast<int64_t>(value);
  if (static_cast<double>(out) != value) return error(key, fmt::format("expected an integer, got {}", value));
  return out;
}

Result<bool> TaskReader::flag(const std::string& key, bool fallback) const {
  MAKAR_TRY(const std::string word, text(key, fallback ? "true" : "false"));
  if (word == "true" || word == "True") return true;
  if (word == "false" || word == "False") return false;
  return error(key, fmt::format("expected true or false, got {}", quote(word)));
}

Result<std::vector<std::string>> TaskReader::list(const std::string& key,
                                                  const std::vector<std::string>& fallback) const {
  const YAML::Node node = find(key);
  if (!node.IsDefined() || node.IsNull()) return fallback;
  std::vector<std::string> out;
  if (!node.IsSequence()) {
    MAKAR_TRY(std::string one, scalar(node, key));
    return out.push_back(std::move(one)), out;
  }
  if (node.size() > kMaxItems) return error(key, fmt::format("has more than {} values", kMaxItems));
  for (const YAML::Node& item : node) {
    MAKAR_TRY(std::string one, scalar(item, key));
    out.push_back(std::move(one));
  }
  return out;
}

Result<std::vector<std::pair<std::string, std::vector<std::string>>>> TaskReader::lists(
    const std::string& key) const {
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  const YAML::Node node = find(key);
  if (!node.IsDefined() || node.IsNull()) return out;
  if (!node.IsMap()) {
    MAKAR_TRY(auto values, list(key, {}));
    out.emplace_back("", std::move(values));
    return out;
  }
  const TaskReader inside(node, place_);
  for (const auto& pair : node) {
    MAKAR_TRY(const std::string name, scalar(pair.first, key));
    MAKAR_TRY(auto values, inside.list(name, {}));
    out.emplace_back(name, std::move(values));
  }
  return out;
}

Result<Columns> TaskReader::columns(const std::string& key) const {
  Columns out;
  MAKAR_TRY(const auto names, lists(key));
  for (const auto& [name, values] : names)
    for (const std::string& value : values)
      if (name.empty())
        out.emplace_back(value, std::to_string(out.size() + 1));
      else
        out.emplace_back(name, value);
  return out;
}

Result<std::optional<TaskReader>> TaskReader::map(const std::string& key) const {
  const YAML::Node node = find(key);
  if (!node.IsDefined() || node.IsNull()) return std::optional<TaskReader>();
  if (!node.IsMap()) return error(key, "expects a map of keys");
  return std::optional(TaskReader(node, place_));
}

Result<std::vector<TaskReader>> TaskReader::maps(const std::string& key, size_t max) const {
  std::vector<TaskReader> out;
  const YAML::Node node = find(key);
  if (!node.IsDefined() || node.IsNull()) return out;
  if (!node.IsSequence() || node.size() > max)
    return error(key, fmt::format("expects a list of at most {} maps", max));
  for (const YAML::Node& one : node) {
    if (!one.IsMap()) return error_at(yaml_place(one, place_), "'{}' expects a list of maps", key);
    out.push_back(TaskReader(one, place_));
  }
  return out;
}

Result<FieldTemplate> TaskReader::field_template(const std::string& key, bool field) const {
  MAKAR_TRY(const std::string source, text(key, ""));
  return FieldTemplate::parse(source, error(key, "").place + ": " + key, field);
}

Result<std::vector<Regex>> TaskReader::regexes(const std::string& key) const {
  std::vector<Regex> out;
  MAKAR_TRY(const auto patterns, list(key, {}));
  for (const std::string& pattern : patterns) {
    auto regex = Regex::compile(pattern);
    if (!regex.ok()) return error(key, regex.error().message);
    out.push_back(std::move(*regex));
  }
  return out;
}

Result<Regex> TaskReader::regex(const std::string& key) const {
  MAKAR_TRY(auto patterns, regexes(key));
  if (patterns.size() != 1) return error(key, "expects one pattern");
  return std::move(patterns[0]);
}

Result<Json> TaskReader::json() const {
  size_t nodes = 0;
  return to_json(node_, place_, nodes);
}

}  // namespace makar
