#include "serve/api/fields.h"

#include <cmath>

#include "base/quote.h"

namespace makar {

constexpr size_t kMaxJsonBodyBytes = size_t{8} << 20;
constexpr int kMaxJsonBodyDepth = 64;
// Per body and options object: key lookup is linear in the number of keys.
constexpr size_t kMaxFields = 1024;

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::null:
      return "null";
    default:
      return "the number " + quote(value.dump(), 40);
  }
}

Result<Json> read_body(const std::string& body) {
  MAKAR_TRY(Json json, parse_json(body, "body", {kMaxJsonBodyBytes, kMaxJsonBodyDepth}));
  if (!json.is_object()) return error_at("body", "expected a JSON object, found {}", kind_of(json));
  if (json.size() > kMaxFields)
    return error_of(Error::Kind::kLimit, "body", "has {} keys; the limit is {}", json.size(), kMaxFields);
  // Filter in one pass: removing or inserting keys one by one would be quadratic.
  auto& fields = static_cast<std::vector<Json::object_t::value_type>&>(json.get_ref<Json::object_t&>());
  std::vector<Json::object_t::value_type> non_null;
  for (auto& field : fields)
    if (!field.second.is_null()) non_null.emplace_back(field.first, std::move(field.second));
  fields.swap(non_null);
  return json;
}

Result<std::string> text_field(const Json& object, const std::string& key, const std::string& fallback) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  if (!it->is_string()) return error_at(key, "expected a string, found {}", kind_of(*it));
  return it->get<std::string>();
}

Result<bool> flag_field(const Json& object, const std::string& key, bool fallback) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  if (!it->is_boolean()) return error_at(key, "expected true or false, found {}", kind_of(*it));
  return it->get<bool>();
}

Result<double> number_field(const Json& object, const std::string& key, double low, double high,
                            double fallback) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  if (!it->is_number()) return error_at(key, "expected a number, found {}", kind_of(*it));
  const double value = it->get<double>();
  if (!(value >= low && value <= high))
    return error_at(key, "must be from {} to {}, got {}", low, high, quote(it->dump(), 40));
  return value;
}

Result<int64_t> integer_field(const Json& object, const std::string& key, int64_t low, int64_t high,
                              int64_t fallback) {
  if (!object.contains(key) || object[key].is_null()) return fallback;
  MAKAR_TRY(const double value,
            number_field(object, key, static_cast<double>(low), static_cast<double>(high), 0));
  if (std::floor(value) != value)
    return error_at(key, "expected an integer, got {}", quote(object[key].dump(), 40));
  return static_cast<int64_t>(value);
}

Result<std::vector<std::string>> texts_field(const Json& object, const std::string& key, size_t max) {
  std::vector<std::string> out;
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return out;
  if (it->is_string()) return out.push_back(it->get<std::string>()), out;
  if (!it->is_array()) return error_at(key, "expected a string or a list of strings, found {}", kind_of(*it));
  if (it->size() > max) return error_at(key, "has {} entries; the limit is {}", it->size(), max);
  for (size_t i = 0; i < it->size(); ++i) {
    if (!(*it)[i].is_string())
      return error_at(fmt::format("{}[{}]", key, i), "expected a string, found {}", kind_of((*it)[i]));
    out.push_back((*it)[i].get<std::string>());
  }
  return out;
}

Result<Json> object_field(const Json& object, const std::string& key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return Json();
  if (!it->is_object()) return error_at(key, "expected an object, found {}", kind_of(*it));
  if (it->size() > kMaxFields)
    return error_of(Error::Kind::kLimit, key, "has {} keys; the limit is {}", it->size(), kMaxFields);
  return *it;
}

}  // namespace makar
