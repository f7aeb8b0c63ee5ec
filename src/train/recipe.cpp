#include "train/recipe.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "data/schema.h"
#include "data/yaml.h"
#include "train/other_trainers.h"

namespace makar {
namespace {

constexpr size_t kMaxEntries = 4096;

using Setting = std::pair<std::string, std::vector<std::string>>;  // the option's main name and its values

Result<std::string> scalar(const YAML::Node& node, const std::string& key, const std::string& place) {
  if (node.IsNull()) return std::string();
  if (!node.IsScalar())
    return error_at(fmt::format("{}:{}", place, node.Mark().line + 1),
                    "'{}' expects a value or a list of values", key);
  return node.Scalar();
}

Result<std::string> dataset(const YAML::Node& node, const std::string& place) {
  if (!node.IsMap()) return scalar(node, "datasets", place);
  std::string path, rest;
  for (const auto& pair : node) {
    MAKAR_TRY(const std::string key, scalar(pair.first, "datasets", place));
    MAKAR_TRY(const std::string value, scalar(pair.second, key, place));
    if (key == "path")
      path = value;
    else if (key == "type" || key == "weight" || is_field_name(key) ||
             (key.starts_with("field_") && is_field_name(key.substr(6))))
      rest += "," + key + "=" + value;
    else
      return error_at(fmt::format("{}:{}", place, pair.first.Mark().line + 1),
                      "unknown key {} of a dataset{}; expected path, type, weight, or the name of a field "
                      "(text, label, ...)",
                      quote(key), did_you_mean(key, {"path", "type", "weight"}));
  }
  if (path.empty())
    return error_at(fmt::format("{}:{}", place, node.Mark().line + 1), "a dataset needs a 'path'");
  return path + rest;
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const Options::Option* find(const Options& options, const std::string& name) {
  for (const auto& o : options.all())
    if (!o.positional && std::find(o.names.begin(), o.names.end(), name) != o.names.end()) return &o;
  return nullptr;
}

const std::string& main_name_of(const Options::Option& option) {
  for (const std::string& name : option.names)
    if (name.starts_with("--")) return name;
  return option.names.front();
}

// The message for an unknown key: its equivalent in makar, or the nearest known key.
std::string unknown_key(const Options& options, const std::string& key) {
  const std::string hint = equivalent_setting(key);
  if (!hint.empty()) return fmt::format("unknown key {} ({})", quote(key), hint);
  std::vector<std::string> known;
  for (const auto& o : options.all())
    for (std::string name : o.names)
      if (name.starts_with("--")) {
        name.erase(0, 2);
        std::replace(name.begin(), name.end(), '-', '_');
        known.push_back(name);
      }
  return fmt::format("unknown key {}{}", quote(key), did_you_mean(key, known));
}

template <class T>
bool is_number(const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

// Checks the type of a recipe's value while its line number is known.
Status check_values(const Options::Option& option, RecipeEntry& entry, const std::string& place) {
  const auto wrong = [&](const char* expected, const std::string& actual) {
    return error_at(fmt::format("{}:{}", place, entry.line), "'{}' expects {}, got {}", entry.key, expected,
                    quote(actual));
  };
  const bool list = std::holds_alternative<std::vector<std::string>*>(option.target);
  if (!list && entry.values.size() > 1)
    return wrong("one value", fmt::format("a list of {}", entry.values.size()));
  for (std::string& value : entry.values) {
    if (std::holds_alternative<int64_t*>(option.target) && !is_number<int64_t>(value))
      return wrong("an integer", value);
    if (std::holds_alternative<double*>(option.target) && !is_number<double>(value))
      return wrong("a number", value);
    if (std::holds_alternative<bool*>(option.target)) {
      std::transform(value.begin(), value.end(), value.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      constexpr const char* kWords[] = {"1", "true", "on", "yes", "0", "false", "off", "no"};
      if (std::none_of(std::begin(kWords), std::end(kWords), [&](const char* w) { return value == w; }))
        return wrong("true or false", value);
    }
  }
  return Done{};
}

// Converts the entries of a recipe to option settings. Reports all unknown keys at once.
Result<std::vector<Setting>> settings_of(std::vector<RecipeEntry> entries, const Options& options,
                                         const std::string& place) {
  std::vector<Setting> out;
  std::vector<std::string> unknown;
  int first_line = 0;
  for (RecipeEntry& e : entries) {
    const auto* option = find(options, "--" + dashed(e.key));
    if (!option) {
      if (unknown.empty()) first_line = e.line;
      unknown.push_back(fmt::format("line {}: {}", e.line, unknown_key(options, e.key)));
      continue;
    }
    MAKAR_RETURN_IF_ERROR(check_values(*option, e, place));
    out.emplace_back(main_name_of(*option), std::move(e.values));
  }
  if (unknown.empty()) return out;
  const std::string at = fmt::format("{}:{}", place, first_line);
  if (unknown.size() == 1) return error_at(at, "{}", unknown[0].substr(unknown[0].find(": ") + 2));
  return error_at(at, "{} unknown keys:\n  {}", unknown.size(), fmt::join(unknown, "\n  "));
}

bool is_recipe(const std::string& word) { return word.ends_with(".yaml") || word.ends_with(".yml"); }

}  // namespace

Result<std::vector<RecipeEntry>> parse_recipe(const std::string& text, const std::string& place) {
  MAKAR_TRY(const YAML::Node root, parse_yaml(text, place, "recipe"));
  std::vector<RecipeEntry> out;
  try {
    if (root.IsNull()) return out;
    if (!root.IsMap()) return error_at(place, "expected a map of settings, KEY: VALUE");
    for (const auto& pair : root) {
      RecipeEntry entry;
      entry.line = pair.first.Mark().line + 1;
      MAKAR_TRY(entry.key, scalar(pair.first, "a key", place));
      const bool datasets = entry.key == "datasets" || entry.key == "val_datasets";
      const auto read_value = [&](const YAML::Node& n) {
        return datasets ? dataset(n, place) : scalar(n, entry.key, place);
      };
      if (pair.second.IsSequence()) {
        if (pair.second.size() > kMaxEntries)
          return error_of(Error::Kind::kLimit, place, "'{}' has {} values; the limit is {}", entry.key,
                          pair.second.size(), kMaxEntries);
        for (const YAML::Node& n : pair.second) {
          MAKAR_TRY(std::string value, read_value(n));
          entry.values.push_back(std::move(value));
        }
      } else if (!pair.second.IsNull()) {
        MAKAR_TRY(std::string value, read_value(pair.second));
        entry.values.push_back(std::move(value));
      }
      out.push_back(std::move(entry));
      if (out.size() > kMaxEntries)
        return error_of(Error::Kind::kLimit, place, "has more than {} settings", kMaxEntries);
    }
  } catch (const YAML::Exception& e) {
    return error_at(fmt::format("{}:{}", place, e.mark.line + 1), "is not valid YAML: {}", e.msg);
  }
  return out;
}

Result<std::vector<std::string>> expand_recipe(const std::vector<std::string>& arguments,
                                               const Options& options) {
  std::vector<Setting> settings;
  const auto set = [&](const std::string& name, std::vector<std::string> values) {
    std::erase_if(settings, [&](const auto& s) { return s.first == name; });
    settings.emplace_back(name, std::move(values));
  };
  std::vector<std::string> rest;
  // Options given as flags: they replace a recipe's list instead of extending it.
  std::vector<std::string> overridden;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    if (word.starts_with("-") && word.size() > 1) {
      const size_t equals = word.find('=');
      std::string name = word.substr(0, equals);
      if (name.starts_with("--")) name = dashed(name);
      rest.push_back(equals == std::string::npos ? name : name + word.substr(equals));
      const auto* option = find(options, name);
      if (!option) continue;
      overridden.push_back(main_name_of(*option));
      if (equals == std::string::npos && !std::holds_alternative<bool*>(option->target) &&
          i + 1 < arguments.size())
        rest.push_back(arguments[++i]);
      continue;
    }
    if (is_recipe(word)) {
      MAKAR_TRY(const std::string text, read_file(word, kMaxYamlBytes + 1));
      MAKAR_TRY(auto entries, parse_recipe(text, word));
      MAKAR_TRY(const auto found, settings_of(std::move(entries), options, word));
      for (const auto& [name, values] : found) set(name, values);
      continue;
    }
    // "books/a=b.txt" and "books.jsonl,weight=2" are paths: a key has neither '/' nor ','.
    if (const size_t equals = word.find('=');
        equals != std::string::npos && equals > 0 && word.find_first_of("/,") > equals) {
      const std::string key = word.substr(0, equals);
      const auto* option = find(options, "--" + dashed(key));
      if (!option) return error_at(word, "{}", unknown_key(options, key));
      set(main_name_of(*option), {word.substr(equals + 1)});
      continue;
    }
    rest.push_back(word);
  }
  std::vector<std::string> out;
  for (const auto& [name, values] : settings) {
    if (std::find(overridden.begin(), overridden.end(), name) != overridden.end()) continue;
    for (const std::string& v : values) out.push_back(name + "=" + v);
  }
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

}  // namespace makar
