// Compiles the schemas of constants, strings and numbers, and selects by type.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/quote.h"
#include "infer/grammar/json_merge.h"
#include "infer/grammar/regex.h"
#include "infer/grammar/schema_compiler.h"

namespace makar::grammar {
namespace {

const std::pair<const char*, const char*> kFormats[] = {
    {"date",
     "[12]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2["
     "0-8]))"},
    {"time", "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"email",
     "[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,30}){0,3}@[A-Za-z0-9]{1,30}([.-][A-Za-z0-9]{1,30}){0,3}\\.[A-"
     "Za-z]{2,10}"},
    {"ipv4", "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"},
    {"ipv6", "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"},
    {"hostname", "[A-Za-z0-9]{1,30}([.-][A-Za-z0-9]{1,30}){0,5}"},
    {"uri",
     "[a-z][a-z0-9+-]{1,10}://[A-Za-z0-9]{1,30}([.-][A-Za-z0-9]{1,30}){0,5}(:\\d{1,4})?(/"
     "[A-Za-z0-9_~.%+-]{0,60}){0,8}"
     "(\\?[A-Za-z0-9_~.%+=&-]{1,100})?(#[A-Za-z0-9_-]{1,40})?"},
};

std::string format_pattern(const std::string& name) {
  if (name == "date-time") return format_pattern("date") + "T" + format_pattern("time");
  for (const auto& [known, pattern] : kFormats)
    if (name == known) return pattern;
  return "";
}

std::string implied_type(const Json& schema) {
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return schema.contains(key); });
  };
  if (has({"properties", "required", "additionalProperties"})) return "object";
  if (has({"items", "prefixItems", "minItems", "maxItems"})) return "array";
  if (has({"minLength", "maxLength", "pattern", "format"})) return "string";
  if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) return "number";
  return "any";
}

std::optional<int64_t> integer_bound(std::optional<double> bound, bool open, bool lower) {
  if (!bound || std::fabs(*bound) > 9e15) return {};
  const double nearest = lower ? std::ceil(*bound) : std::floor(*bound);
  const int64_t n = static_cast<int64_t>(nearest);
  return open && nearest == *bound ? n + (lower ? 1 : -1) : n;
}

}  // namespace

Result<ExprPtr> SchemaCompiler::compile_value(const Json& schema, const std::string& path, int depth) {
  note_unknown(schema, path);
  if (schema.contains("const")) return json_constant(schema["const"]);
  if (schema.contains("enum")) {
    if (!schema["enum"].is_array() || schema["enum"].empty())
      return schema_error(path, "enum must be an array of values");
    std::vector<ExprPtr> alternatives;
    for (const Json& value : schema["enum"]) {
      if (!work_.spend(8)) return work_.error("schema " + path);
      alternatives.push_back(json_constant(value));
    }
    return choice(std::move(alternatives));
  }
  Json types = schema.contains("type") ? schema["type"] : Json(implied_type(schema));
  if (!types.is_array()) types = Json::array({types});
  std::vector<ExprPtr> alternatives;
  for (const Json& type : types) {
    if (!type.is_string()) return schema_error(path, "type must be a string or an array of strings");
    MAKAR_TRY(auto alternative, compile_type(type.get<std::string>(), schema, path, depth));
    alternatives.push_back(std::move(alternative));
  }
  if (schema.value("nullable", Json()) == true) alternatives.push_back(literal("null"));
  return choice(std::move(alternatives));
}

void SchemaCompiler::note_unknown(const Json& schema, const std::string& path) {
  static const std::set<std::string> kKnownKeywords = {
      "type",    "enum",        "const",    "properties", "required",         "additionalProperties",
      "items",   "prefixItems", "minItems", "maxItems",   "minLength",        "maxLength",
      "pattern", "format",      "minimum",  "maximum",    "exclusiveMinimum", "exclusiveMaximum",
      "nullable"};
  for (const auto& [key, value] : schema.items())
    if (!kKnownKeywords.count(key) && !is_annotation(key)) note(path, key);
}

Result<ExprPtr> SchemaCompiler::compile_type(const std::string& type, const Json& schema,
                                             const std::string& path, int depth) {
  if (type == "any") return text_.value();
  if (type == "null") return literal("null");
  if (type == "boolean") return choice({literal("true"), literal("false")});
  if (type == "string") return string(schema, path);
  if (type == "integer" || type == "number") return number(type == "integer", schema, path);
  if (type == "array") return array(schema, path, depth);
  if (type == "object") return object(schema, path, depth);
  return schema_error(path, "unknown type " + quote(type) +
                                "; known are string, number, integer, boolean, null, object, array");
}

Result<ExprPtr> SchemaCompiler::string(const Json& schema, const std::string& path) {
  std::string pattern;
  RegexOptions options;
  options.character = json_character;
  if (schema.contains("pattern")) {
    if (!schema["pattern"].is_string()) return schema_error(path, "pattern must be a string");
    pattern = schema["pattern"];
    options.search = true;
  } else if (schema.contains("format") && schema["format"].is_string()) {
    pattern = format_pattern(schema["format"]);
    if (pattern.empty()) note(path, "format " + schema["format"].get<std::string>());
  }
  MAKAR_TRY(const auto min, count(schema, "minLength", path));
  MAKAR_TRY(const auto max, count(schema, "maxLength", path));
  if (!pattern.empty()) {
    for (const char* keyword : {"minLength", "maxLength"})
      if (schema.contains(keyword)) note(path, std::string(keyword) + " together with pattern or format");
    auto content = read_regex(pattern, limits_, work_, options);
    if (!content.ok()) return content.error().in("schema " + path);
    return sequence({literal("\""), *content, literal("\"")});
  }
  if (!min && !max) return text_.string();
  return sequence(
      {literal("\""), repeat(any_json_character(), min.value_or(0), max ? *max : -1), literal("\"")});
}

Result<ExprPtr> SchemaCompiler::number(bool integer, const Json& schema, const std::string& path) {
  std::optional<double> low, high;
  bool low_open = false, high_open = false;
  for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    if (!schema.contains(keyword)) continue;
    const Json& value = schema[keyword];
    const bool lower = std::string(keyword).find("inimum") != std::string::npos, open = keyword[0] == 'e';
    if (open && value.is_boolean()) {  // draft 4 syntax
      (lower ? low_open : high_open) |= value.get<bool>();
      continue;
    }
    if (!value.is_number()) return schema_error(path, std::string(keyword) + " must be a number");
    const double bound = value.get<double>();
    auto& current = lower ? low : high;
    bool& current_open = lower ? low_open : high_open;
    if (!current || (lower ? bound > *current : bound < *current))
      current = bound, current_open = open;
    else if (bound == *current)
      current_open |= open;
  }
  if (integer)
    return integer_between(integer_bound(low, low_open, true), integer_bound(high, high_open, false));
  if (!low && !high) return text_.number();
  const auto bound = [](std::optional<double> value, bool open) {
    return value ? std::optional<NumberBound>({*value, open}) : std::nullopt;
  };
  if (auto bounded = number_between(bound(low, low_open), bound(high, high_open))) return bounded;
  note(path, "bounds of a number beyond 1e15 or with an exponent");
  return text_.number();
}

}  // namespace makar::grammar
