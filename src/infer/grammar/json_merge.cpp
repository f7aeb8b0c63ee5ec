#include "infer/grammar/json_merge.h"

#include <algorithm>

namespace makar::grammar {
namespace {

bool among(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json list_of(const Json& value) { return value.is_array() ? value : Json::array({value}); }

Json intersection(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& x : a)
    if (among(b, x) || (x == "integer" && among(b, "number"))) out.push_back(x);
  if (among(a, "number") && among(b, "integer") && !among(out, "integer")) out.push_back("integer");
  return out;
}

Json both(const Json& a, const Json& b) { return Json{{"allOf", Json::array({a, b})}}; }

}  // namespace

bool is_annotation(const std::string& keyword) {
  static const char* const kNames[] = {
      "title",     "description", "default", "examples",    "example",         "$schema",         "$id",
      "id",        "$comment",    "$defs",   "definitions", "$anchor",         "deprecated",      "readOnly",
      "writeOnly", "strict",      "name",    "$vocabulary", "contentEncoding", "contentMediaType"};
  return std::find(std::begin(kNames), std::end(kNames), keyword) != std::end(kNames);
}

Json merge_schemas(const Json& a, const Json& b, std::vector<std::string>& lost) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  Json out = a;
  for (const auto& [key, value] : b.items()) {
    if (is_annotation(key)) continue;
    if (!out.contains(key)) {
      out[key] = value;
      continue;
    }
    Json& mine = out[key];
    if (mine == value) continue;
    const bool numbers = mine.is_number() && value.is_number();
    if (key == "type") {
      mine = intersection(list_of(mine), list_of(value));
    } else if (key == "enum" && mine.is_array() && value.is_array()) {
      mine = intersection(mine, value);
    } else if (key == "required" && mine.is_array() && value.is_array()) {
      for (const Json& name : value)
        if (!among(mine, name)) mine.push_back(name);
    } else if (key == "properties" && mine.is_object() && value.is_object()) {
      for (const auto& [name, schema] : value.items())
        mine[name] = mine.contains(name) ? both(mine[name], schema) : schema;
    } else if (numbers &&
               (key == "minimum" || key == "exclusiveMinimum" || key == "minLength" || key == "minItems")) {
      if (value.get<double>() > mine.get<double>()) mine = value;
    } else if (numbers &&
               (key == "maximum" || key == "exclusiveMaximum" || key == "maxLength" || key == "maxItems")) {
      if (value.get<double>() < mine.get<double>()) mine = value;
    } else if (key == "items" || key == "additionalProperties") {
      mine = mine == false || value == false ? Json(false) : both(mine, value);
    } else if (key == "allOf" && mine.is_array() && value.is_array()) {
      for (const Json& one : value) mine.push_back(one);
    } else {
      lost.push_back(key);
    }
  }
  return out;
}

}  // namespace makar::grammar
