#include "formats/config.h"

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "formats/failed_download.h"

namespace makar {
namespace {

// Errors about a missing field suggest a similar one only in configs of at most this many fields.
constexpr size_t kMaxFieldsToSuggest = 1000;
constexpr JsonLimits kLimits = {.bytes = size_t{16} << 20, .depth = 32};  // ImageNet's 21k labels take 2 MB

// A value as it is shown in an error.
std::string value_text(const Json& v) {
  if (v.is_string()) return "the string " + quote(v.get_ref<const std::string&>());
  if (v.is_object()) return "an object";
  if (v.is_array()) return fmt::format("a list of {}", v.size());
  return v.dump();
}

Error expected_found(const std::string& place, const std::string& key, const std::string& expected,
                     const Json& v) {
  return error_at(place, "field {} must be {}, found {}", quote(key), expected, value_text(v));
}

// Read one value; false if its type is wrong or it is out of bounds, as unsigned values above INT64_MAX are.
bool get_integer(const Json& v, int64_t lo, int64_t hi, int64_t& out) {
  if (!v.is_number_integer()) return false;
  if (v.is_number_unsigned() && v.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    return false;
  out = v.get<int64_t>();
  return lo <= out && out <= hi;
}
bool get_number(const Json& v, double lo, double hi, double& out) {
  if (!v.is_number()) return false;
  out = v.get<double>();
  return lo <= out && out <= hi;
}

// The likely cause when a file is not JSON.
std::string likely_cause(std::string_view text) {
  if (const auto leftover = failed_download(text); !leftover.empty())
    return fmt::format("; it is {}", leftover);
  return text.empty() ? "; the file is empty: download it again" : "";
}

// Python writes Infinity and -Infinity, which are not JSON. Here they become {"__float__": "Infinity"}, as
// newer transformers write them.
std::string with_tagged_infinity(std::string_view text) {
  constexpr std::string_view kInfinity = "Infinity";
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    const bool negative = !in_string && text[i] == '-';
    if (!in_string && text.substr(i + (negative ? 1 : 0)).starts_with(kInfinity)) {
      out += fmt::format("{{\"__float__\": \"{}{}\"}}", negative ? "-" : "", kInfinity);
      i += kInfinity.size() - (negative ? 0 : 1);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string integer_text(int64_t lo, int64_t hi) { return fmt::format("an integer from {} to {}", lo, hi); }
std::string number_text(double lo, double hi) { return fmt::format("a number from {} to {}", lo, hi); }

}  // namespace

Config::Config(Json object, std::string place) : json_(std::move(object)), place_(std::move(place)) {
  check(json_.is_object(), "a Config holds a JSON object");
}

Result<Config> Config::read(const std::string& folder, const std::string& file) {
  if (is_file(folder))
    return error_at(folder, "is a file; expected a model folder that contains {}, or a GGUF file", file);
  if (!is_folder(folder))
    return error_of(Error::Kind::kNotFound, folder, "no such file or folder; check the path of the model");
  const std::string path = folder + "/" + file;
  if (!path_exists(path))
    return error_of(Error::Kind::kNotFound, folder,
                    "has no {}; check that this is a model folder and that its download is complete", file);
  MAKAR_TRY(const std::string text, read_file(path, kLimits.bytes));
  auto config = parse(text, path);
  if (config.ok()) return config;
  Error error = config.error();
  error.message += likely_cause(text);
  return error;
}

Result<Config> Config::parse(std::string_view text, const std::string& place) {
  std::string tagged_text;
  if (text.size() <= kLimits.bytes && text.find("Infinity") != text.npos)
    tagged_text = with_tagged_infinity(text), text = tagged_text;
  JsonLimits limits = kLimits;
  if (!tagged_text.empty()) limits.bytes = tagged_text.size();
  MAKAR_TRY(Json json, parse_json(text, place, limits));
  const bool is_object = json.is_object() && !json.contains("__float__");  // a file of one Infinity
  if (!is_object) return error_at(place, "must be a JSON object, found {}", value_text(json));
  return Config(std::move(json), place);
}

std::vector<std::string> Config::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : json_.items()) names.push_back(key);
  return names;
}

Config::Found Config::find(const Keys& keys) const {
  check(!keys.list.empty(), "a field needs a name");
  for (const auto& key : keys.list)
    if (const auto it = json_.find(key); it != json_.end() && !it->is_null()) return {&key, &*it};
  return {&keys.list[0], nullptr};
}

Error Config::missing(const Keys& keys) const {
  std::string names = quote(keys.list[0]);
  for (size_t i = 1; i < keys.list.size(); ++i) names += " or " + quote(keys.list[i]);
  return error_of(Error::Kind::kNotFound, place_, "field {} is missing; this kind of model needs it{}", names,
                  json_.size() <= kMaxFieldsToSuggest ? did_you_mean(keys.list[0], this->keys()) : "");
}

Error Config::field_error(const Keys& keys, const std::string& what) const {
  return error_at(place_, "field {} {}", quote(*find(keys).key), what);
}

template <class T, class Read>
Result<T> Config::read_one(const Keys& keys, Read read) const {
  const auto [key, value] = find(keys);
  if (!value) return missing(keys);
  return read(*key, *value);
}

Result<int64_t> Config::integer(const Keys& keys, int64_t lo, int64_t hi) const {
  return read_one<int64_t>(keys, [&](const std::string& key, const Json& v) -> Result<int64_t> {
    int64_t out = 0;
    if (!get_integer(v, lo, hi, out)) return expected_found(place_, key, integer_text(lo, hi), v);
    return out;
  });
}

Result<double> Config::number(const Keys& keys, double lo, double hi) const {
  return read_one<double>(keys, [&](const std::string& key, const Json& v) -> Result<double> {
    double out = 0;
    if (!get_number(v, lo, hi, out)) return expected_found(place_, key, number_text(lo, hi), v);
    return out;
  });
}

Result<bool> Config::boolean(const Keys& keys) const {
  return read_one<bool>(keys, [&](const std::string& key, const Json& v) -> Result<bool> {
    if (!v.is_boolean()) return expected_found(place_, key, "true or false", v);
    return v.get<bool>();
  });
}

Result<std::string> Config::text(const Keys& keys) const {
  return read_one<std::string>(keys, [&](const std::string& key, const Json& v) -> Result<std::string> {
    if (!v.is_string()) return expected_found(place_, key, "a string", v);
    return v.get<std::string>();
  });
}

Result<std::string> Config::choice(const Keys& keys, const std::vector<std::string>& known) const {
  MAKAR_TRY(std::string value, text(keys));
  if (std::find(known.begin(), known.end(), value) != known.end()) return value;
  return error_of(Error::Kind::kUnsupported, place_,
                  "field {} is {}, which is not supported; expected one of {}{}", quote(*find(keys).key),
                  quote(value), fmt::join(known, ", "), did_you_mean(value, known));
}

Result<Config> Config::object(const Keys& keys) const {
  return read_one<Config>(keys, [&](const std::string& key, const Json& v) -> Result<Config> {
    if (!v.is_object()) return expected_found(place_, key, "an object", v);
    return Config(v, place_ + ": " + key);
  });
}

template <class T, class Read>
Result<std::vector<T>> Config::read_list(const Keys& keys, size_t max, const char* expected,
                                         Read read) const {
  const auto [key, value] = find(keys);
  if (!value) return missing(keys);
  if (!value->is_array()) return expected_found(place_, *key, expected, *value);
  if (value->size() > max)
    return error_of(Error::Kind::kLimit, place_, "field {} has {} values; the limit is {}", quote(*key),
                    value->size(), max);
  std::vector<T> out;
  for (const auto& item : *value) {
    const std::string name = fmt::format("{}[{}]", *key, out.size());
    MAKAR_TRY(out.emplace_back(), read(name, item));
  }
  return out;
}

Result<std::vector<int64_t>> Config::integers(const Keys& keys, int64_t lo, int64_t hi, size_t max) const {
  return read_list<int64_t>(keys, max, "a list of integers",
                            [&](const std::string& key, const Json& v) -> Result<int64_t> {
                              int64_t out = 0;
                              if (!get_integer(v, lo, hi, out))
                                return expected_found(place_, key, integer_text(lo, hi), v);
                              return out;
                            });
}

Result<std::vector<double>> Config::numbers(const Keys& keys, double lo, double hi, size_t max) const {
  return read_list<double>(keys, max, "a list of numbers",
                           [&](const std::string& key, const Json& v) -> Result<double> {
                             double out = 0;
                             if (!get_number(v, lo, hi, out))
                               return expected_found(place_, key, number_text(lo, hi), v);
                             return out;
                           });
}

Result<std::vector<std::string>> Config::texts(const Keys& keys, size_t max) const {
  return read_list<std::string>(keys, max, "a list of strings",
                                [&](const std::string& key, const Json& v) -> Result<std::string> {
                                  if (!v.is_string()) return expected_found(place_, key, "a string", v);
                                  return v.get<std::string>();
                                });
}

Result<int64_t> Config::integer_or(const Keys& keys, int64_t fallback, int64_t lo, int64_t hi) const {
  return has(keys) ? integer(keys, lo, hi) : fallback;
}
Result<double> Config::number_or(const Keys& keys, double fallback, double lo, double hi) const {
  return has(keys) ? number(keys, lo, hi) : fallback;
}
Result<bool> Config::boolean_or(const Keys& keys, bool fallback) const {
  return has(keys) ? boolean(keys) : fallback;
}
Result<std::string> Config::text_or(const Keys& keys, std::string fallback) const {
  return has(keys) ? text(keys) : std::move(fallback);
}
Result<std::string> Config::choice_or(const Keys& keys, std::string fallback,
                                      const std::vector<std::string>& known) const {
  return has(keys) ? choice(keys, known) : std::move(fallback);
}
Result<Config> Config::object_or_empty(const Keys& keys) const {
  return has(keys) ? object(keys) : Config(Json::object(), place_ + ": " + keys.list[0]);
}

}  // namespace makar
