// A JSON schema validator for tests, written from the standard and independent of the grammar; oneOf is
// checked as anyOf, which is what the grammar enforces.
#pragma once
#include <cmath>
#include <regex>
#include <string>

#include "base/json.h"

namespace makar {

class JsonValidator {
 public:
  explicit JsonValidator(Json schema) : root_(std::move(schema)) {}
  bool valid(const Json& value) const { return holds(root_, value); }

 private:
  static size_t length(const std::string& text) {
    size_t n = 0;
    for (const char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
    return n;
  }

  static bool has_type(const std::string& type, const Json& v) {
    if (type == "integer")
      return v.is_number_integer() || (v.is_number() && std::floor(v.get<double>()) == v.get<double>());
    if (type == "number") return v.is_number();
    if (type == "string") return v.is_string();
    if (type == "boolean") return v.is_boolean();
    if (type == "null") return v.is_null();
    if (type == "array") return v.is_array();
    return v.is_object();
  }

  bool holds(const Json& s, const Json& v) const {
    if (s.is_boolean()) return s.get<bool>();
    if (s.contains("$ref") && !holds(root_.at(Json::json_pointer(s["$ref"].get<std::string>().substr(1))), v))
      return false;
    if (s.contains("allOf"))
      for (const Json& one : s["allOf"])
        if (!holds(one, v)) return false;
    for (const char* any : {"anyOf", "oneOf"})
      if (s.contains(any)) {
        bool matched = false;
        for (const Json& one : s[any]) matched |= holds(one, v);
        if (!matched) return false;
      }
    if (s.contains("const") && s["const"] != v) return false;
    if (s.contains("enum")) {
      bool matched = false;
      for (const Json& one : s["enum"]) matched |= one == v;
      if (!matched) return false;
    }
    if (s.contains("type")) {
      bool matched = s.value("nullable", false) && v.is_null();
      for (const Json& type : s["type"].is_array() ? s["type"] : Json::array({s["type"]}))
        matched |= has_type(type, v);
      if (!matched) return false;
    }
    if (v.is_number()) return number(s, v.get<double>());
    if (v.is_string()) return string(s, v.get<std::string>());
    if (v.is_array()) return array(s, v);
    return !v.is_object() || object(s, v);
  }

  static bool number(const Json& s, double v) {
    return !(s.contains("minimum") && v < s["minimum"].get<double>()) &&
           !(s.contains("maximum") && v > s["maximum"].get<double>()) &&
           !(s.contains("exclusiveMinimum") && v <= s["exclusiveMinimum"].get<double>()) &&
           !(s.contains("exclusiveMaximum") && v >= s["exclusiveMaximum"].get<double>());
  }

  static bool string(const Json& s, const std::string& v) {
    return !(s.contains("minLength") && length(v) < s["minLength"].get<size_t>()) &&
           !(s.contains("maxLength") && length(v) > s["maxLength"].get<size_t>()) &&
           !(s.contains("pattern") && !std::regex_search(v, std::regex(s["pattern"].get<std::string>())));
  }

  bool array(const Json& s, const Json& v) const {
    if (s.contains("minItems") && v.size() < s["minItems"].get<size_t>()) return false;
    if (s.contains("maxItems") && v.size() > s["maxItems"].get<size_t>()) return false;
    const size_t prefix = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
    for (size_t i = 0; i < v.size(); ++i) {
      if (i < prefix && !holds(s["prefixItems"][i], v[i])) return false;
      if (i >= prefix && s.contains("items") && !holds(s["items"], v[i])) return false;
    }
    return true;
  }

  bool object(const Json& s, const Json& v) const {
    if (s.contains("required"))
      for (const Json& name : s["required"])
        if (!v.contains(name.get<std::string>())) return false;
    for (const auto& [key, value] : v.items()) {
      if (s.contains("properties") && s["properties"].contains(key)) {
        if (!holds(s["properties"][key], value)) return false;
      } else if (s.contains("additionalProperties") && !holds(s["additionalProperties"], value)) {
        return false;
      }
    }
    return true;
  }

  Json root_;
};

}  // namespace makar
