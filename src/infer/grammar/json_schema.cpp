#include "infer/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/shown.h"
#include "infer/grammar/json_merge.h"
#include "infer/grammar/json_text.h"
#include "infer/grammar/regex.h"

namespace makar::grammar {
namespace {

constexpr int64_t kCounted = 2000;  // items and characters that are counted out
constexpr int kDeepest = 100;       // schemas inside of schemas, references followed included

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

bool only_describes(const Json& schema) {
  for (const auto& item : schema.items())
    if (!is_annotation(item.key())) return false;
  return true;
}

class Compiler {
 public:
  Compiler(const Json& root, const Limits& limits) : root_(root), limits_(limits), text_(out_.rules) {}

  Result<SchemaRules> run() {
    out_.rules.add("json");
    MAKAR_TRY(auto body, compile(root_, "#", 0));
    out_.rules.bodies[0] = std::move(body);
    auto& notes = out_.not_enforced;
    std::sort(notes.begin(), notes.end());
    notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
    return std::move(out_);
  }

 private:
  void note(const std::string& path, const std::string& what) {
    constexpr size_t kNotes = 1000;
    if (out_.not_enforced.size() < kNotes) out_.not_enforced.push_back(path + ": " + shown(what));
  }
  Error bad(const std::string& path, const std::string& what) const {
    return error_at("schema " + path, "{}", what);
  }

  Result<ExprPtr> compile(const Json& schema, const std::string& path, int depth) {
    if (depth > kDeepest || ++work_ > limits_.nodes || out_.rules.names.size() > limits_.nodes)
      return error_of(Error::Kind::kLimit, "schema " + path,
                      "schemas are nested deeper than {} or are too many once merged", kDeepest);
    if (schema.is_boolean()) return schema.get<bool>() ? text_.value() : choice({});
    if (!schema.is_object())
      return bad(path, "expected an object or true, found " + std::string(schema.type_name()));
    if (schema.contains("$ref")) return reference(schema, path, depth);
    if (schema.contains("allOf")) return all_of(schema, path, depth);
    for (const char* keyword : {"anyOf", "oneOf"})
      if (schema.contains(keyword)) return any_of(schema, keyword, path, depth);
    return plain(schema, path, depth);
  }

  // A rule of its own for a part of the document: what other places refer to, and what may contain itself.
  Result<ExprPtr> reference(const Json& schema, const std::string& path, int depth) {
    if (!schema["$ref"].is_string()) return bad(path, "$ref must be a string");
    const std::string target = schema["$ref"];
    Json others = schema;
    others.erase("$ref");
    const bool alone = only_describes(others);
    MAKAR_TRY(const Json* found, resolve(target, path));
    if (!alone) {
      std::vector<std::string> lost;
      const Json merged = merge_schemas(*found, others, lost);
      for (const std::string& keyword : lost) note(path, keyword);
      return compile(merged, target, depth + 1);
    }
    const auto [known, added] = references_.try_emplace(target, 0);
    const int rule = added ? known->second = out_.rules.add(target) : known->second;
    if (added) {
      MAKAR_TRY(auto body, compile(*found, target, depth + 1));
      out_.rules.bodies[static_cast<size_t>(rule)] = std::move(body);
    }
    return rule_of(rule);
  }

  Result<const Json*> resolve(const std::string& target, const std::string& path) {
    if (target.empty() || target[0] != '#')
      return bad(path, "$ref " + shown(target) + " leads out of the document; only \"#/...\" is followed");
    try {
      const Json::json_pointer pointer(target.substr(1));
      if (root_.contains(pointer)) return &root_.at(pointer);
    } catch (const Json::exception&) {  // a pointer that is none
    }
    return bad(path, "$ref " + shown(target) + " leads nowhere");
  }

  Result<ExprPtr> all_of(const Json& schema, const std::string& path, int depth) {
    Json merged = schema;
    const Json parts = merged["allOf"];
    merged.erase("allOf");
    if (!parts.is_array() || parts.empty()) return bad(path, "allOf must be an array of schemas");
    std::vector<std::string> lost;
    for (const Json& part : parts) {
      const Json* one = &part;
      for (int i = 0;
           one->is_object() && one->size() == 1 && one->contains("$ref") && (*one)["$ref"].is_string(); ++i) {
        if (i > kDeepest) return bad(path, "references go round in a circle");
        MAKAR_TRY(one, resolve((*one)["$ref"], path));
      }
      if (!one->is_object() && !one->is_boolean()) return bad(path, "allOf must be an array of schemas");
      work_ += 1 + one->size();
      merged = merge_schemas(merged, *one, lost);
    }
    for (const std::string& keyword : lost) note(path, keyword);
    return compile(merged, path, depth + 1);
  }

  Result<ExprPtr> any_of(const Json& schema, const char* keyword, const std::string& path, int depth) {
    const Json& parts = schema[keyword];
    if (!parts.is_array() || parts.empty())
      return bad(path, std::string(keyword) + " must be an array of schemas");
    Json others = schema;
    others.erase(keyword);
    const bool alone = only_describes(others);
    if (std::string(keyword) == "oneOf") note(path, "oneOf: that only one holds");
    std::vector<ExprPtr> ways;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string at = fmt::format("{}/{}/{}", path, keyword, i);
      const Json one = alone ? parts[i] : Json{{"allOf", Json::array({parts[i], others})}};
      MAKAR_TRY(auto way, compile(one, at, depth + 1));
      ways.push_back(std::move(way));
    }
    return choice(std::move(ways));
  }

  Result<ExprPtr> plain(const Json& schema, const std::string& path, int depth) {
    note_unknown(schema, path);
    if (schema.contains("const")) return json_constant(schema["const"]);
    if (schema.contains("enum")) {
      if (!schema["enum"].is_array() || schema["enum"].empty())
        return bad(path, "enum must be an array of values");
      std::vector<ExprPtr> ways;
      for (const Json& value : schema["enum"]) ways.push_back(json_constant(value));
      return choice(std::move(ways));
    }
    Json types = schema.contains("type") ? schema["type"] : Json(implied_type(schema));
    if (!types.is_array()) types = Json::array({types});
    std::vector<ExprPtr> ways;
    for (const Json& type : types) {
      if (!type.is_string()) return bad(path, "type must be a string or an array of strings");
      MAKAR_TRY(auto way, typed(type.get<std::string>(), schema, path, depth));
      ways.push_back(std::move(way));
    }
    if (schema.value("nullable", Json()) == true) ways.push_back(literal("null"));
    return choice(std::move(ways));
  }

  void note_unknown(const Json& schema, const std::string& path) {
    static const std::set<std::string> kKnown = {
        "type",    "enum",        "const",    "properties", "required",         "additionalProperties",
        "items",   "prefixItems", "minItems", "maxItems",   "minLength",        "maxLength",
        "pattern", "format",      "minimum",  "maximum",    "exclusiveMinimum", "exclusiveMaximum",
        "nullable"};
    for (const auto& [key, value] : schema.items())
      if (!kKnown.count(key) && !is_annotation(key)) note(path, key);
  }

  static std::string implied_type(const Json& schema) {
    const auto has = [&](std::initializer_list<const char*> keys) {
      return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return schema.contains(key); });
    };
    if (has({"properties", "required", "additionalProperties"})) return "object";
    if (has({"items", "prefixItems", "minItems", "maxItems"})) return "array";
    if (has({"minLength", "maxLength", "pattern", "format"})) return "string";
    if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) return "number";
    return "any";
  }

  Result<ExprPtr> typed(const std::string& type, const Json& schema, const std::string& path, int depth) {
    if (type == "any") return text_.value();
    if (type == "null") return literal("null");
    if (type == "boolean") return choice({literal("true"), literal("false")});
    if (type == "string") return string(schema, path);
    if (type == "integer" || type == "number") return number(type == "integer", schema, path);
    if (type == "array") return array(schema, path, depth);
    if (type == "object") return object(schema, path, depth);
    return bad(path, "unknown type " + shown(type) +
                         "; known are string, number, integer, boolean, null, object, array");
  }

  Result<std::optional<int64_t>> count(const Json& schema, const char* keyword, const std::string& path) {
    if (!schema.contains(keyword)) return std::optional<int64_t>();
    const Json& value = schema[keyword];
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || std::floor(number) != number)
      return bad(path, std::string(keyword) + " must be a whole number");
    if (number > static_cast<double>(kCounted)) {
      note(path, keyword);
      return std::optional<int64_t>();
    }
    return std::optional<int64_t>(static_cast<int64_t>(number));
  }

  Result<ExprPtr> string(const Json& schema, const std::string& path) {
    std::string pattern;
    RegexOptions options;
    options.character = json_character;
    if (schema.contains("pattern")) {
      if (!schema["pattern"].is_string()) return bad(path, "pattern must be a string");
      pattern = schema["pattern"];
      options.search = true;
    } else if (schema.contains("format") && schema["format"].is_string()) {
      pattern = format_pattern(schema["format"]);
      if (pattern.empty()) note(path, "format " + schema["format"].get<std::string>());
    }
    MAKAR_TRY(const auto least, count(schema, "minLength", path));
    MAKAR_TRY(const auto most, count(schema, "maxLength", path));
    if (!pattern.empty()) {
      for (const char* keyword : {"minLength", "maxLength"})
        if (schema.contains(keyword)) note(path, std::string(keyword) + " beside pattern or format");
      auto inside = read_regex(pattern, limits_, options);
      if (!inside.ok()) return inside.error().in("schema " + path);
      return sequence({literal("\""), *inside, literal("\"")});
    }
    if (!least && !most) return text_.string();
    return sequence(
        {literal("\""), repeat(any_json_character(), least.value_or(0), most ? *most : -1), literal("\"")});
  }

  Result<ExprPtr> number(bool whole, const Json& schema, const std::string& path) {
    std::optional<double> low, high;
    bool low_open = false, high_open = false;
    for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      if (!schema.contains(keyword)) continue;
      const Json& value = schema[keyword];
      const bool lower = std::string(keyword).find("inimum") != std::string::npos, open = keyword[0] == 'e';
      if (open && value.is_boolean()) {  // as draft 4 has it
        (lower ? low_open : high_open) |= value.get<bool>();
        continue;
      }
      if (!value.is_number()) return bad(path, std::string(keyword) + " must be a number");
      const double bound = value.get<double>();
      auto& mine = lower ? low : high;
      bool& mine_open = lower ? low_open : high_open;
      if (!mine || (lower ? bound > *mine : bound < *mine))
        mine = bound, mine_open = open;
      else if (bound == *mine)
        mine_open |= open;
    }
    if (whole) return integer_between(whole_bound(low, low_open, true), whole_bound(high, high_open, false));
    if (!low && !high) return text_.number();
    // Digits of fractions are not compared: the sign is all that is enforced.
    if ((low && (*low != 0 || low_open)) || (high && (*high != 0 || high_open)))
      note(path, "bounds of a number");
    const ExprPtr digits = repeat(character({{'0', '9'}}), 1, 16);
    const ExprPtr natural = integer_between(0, {}), fraction = optional(sequence({literal("."), digits}));
    std::vector<ExprPtr> ways;
    if (!high || *high > 0) ways.push_back(sequence({natural, fraction}));
    if (!low || *low < 0) ways.push_back(sequence({literal("-"), natural, fraction}));
    if ((!low || *low <= 0) && high && *high == 0) ways.push_back(literal("0"));
    return choice(std::move(ways));
  }

  static std::optional<int64_t> whole_bound(std::optional<double> bound, bool open, bool lower) {
    if (!bound || std::fabs(*bound) > 9e15) return {};
    const double nearest = lower ? std::ceil(*bound) : std::floor(*bound);
    const int64_t n = static_cast<int64_t>(nearest);
    return open && nearest == *bound ? n + (lower ? 1 : -1) : n;
  }

  Result<ExprPtr> array(const Json& schema, const std::string& path, int depth) {
    MAKAR_TRY(const auto least, count(schema, "minItems", path));
    MAKAR_TRY(const auto most, count(schema, "maxItems", path));
    std::vector<ExprPtr> first;
    const Json& prefix = schema.contains("prefixItems") ? schema["prefixItems"] : kNone;
    const bool old = schema.contains("items") && schema["items"].is_array();  // as older drafts have it
    for (const Json& one : old ? schema["items"] : prefix) {
      MAKAR_TRY(auto item, compile(one, fmt::format("{}/prefixItems/{}", path, first.size()), depth + 1));
      first.push_back(as_rule(path + " item", std::move(item)));
    }
    const Json& others = old || !schema.contains("items") ? kAny : schema["items"];
    const int64_t min = least.value_or(0), given = static_cast<int64_t>(first.size());
    int64_t max = most ? *most : -1;
    if (others == false) max = max < 0 ? given : std::min(max, given);
    ExprPtr tail = literal("");
    if (max < 0 || max > given) {
      MAKAR_TRY(auto item, compile(others, path + "/items", depth + 1));
      item = as_rule(path + "/items", std::move(item));
      const ExprPtr further = sequence({text_.comma(), item});
      if (given > 0) {
        tail = repeat(further, std::max<int64_t>(min - given, 0), max < 0 ? -1 : max - given);
      } else {
        tail = sequence({item, repeat(further, std::max<int64_t>(min - 1, 0), max < 0 ? -1 : max - 1)});
        if (min == 0) tail = optional(tail);
      }
    }
    if (max >= 0 && max < min) return choice({});
    for (int64_t i = std::min(given, max < 0 ? given : max); i-- > 0;) {
      tail = sequence({i > 0 ? text_.comma() : literal(""), first[static_cast<size_t>(i)], tail});
      tail = as_rule(path + " items", i >= min ? optional(tail) : tail);
    }
    return sequence({literal("["), text_.blank(), tail, text_.blank(), literal("]")});
  }

  // What is used at several places is emitted once.
  ExprPtr as_rule(std::string name, ExprPtr body) {
    return body->kind == Expr::Kind::kRule ? body : rule_of(out_.rules.add(std::move(name), std::move(body)));
  }

  Result<ExprPtr> object(const Json& schema, const std::string& path, int depth) {
    struct Property {
      std::string name;
      ExprPtr pair;
      bool required;
    };
    std::vector<Property> properties;
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) return bad(path, "required must be an array of names");
      for (const Json& name : schema["required"]) {
        if (!name.is_string()) return bad(path, "required must be an array of names");
        required.insert(name.get<std::string>());
      }
    }
    const auto add = [&](const std::string& name, const Json& value) -> Status {
      MAKAR_TRY(auto body, compile(value, path + "/properties/" + name.substr(0, 80), depth + 1));
      const ExprPtr pair = sequence({json_constant(name), literal(":"), text_.blank(), std::move(body)});
      properties.push_back({name, as_rule(path + " " + name, pair), required.erase(name) > 0});
      return Done{};
    };
    if (schema.contains("properties")) {
      if (!schema["properties"].is_object()) return bad(path, "properties must be an object");
      for (const auto& [name, value] : schema["properties"].items()) MAKAR_CHECK_OK(add(name, value));
    }
    const bool further = schema.contains("additionalProperties") ? schema["additionalProperties"] != false
                                                                 : !schema.contains("properties");
    const Json& others = schema.contains("additionalProperties") ? schema["additionalProperties"] : kAny;
    if (!required.empty() && !further) return choice({});  // required and forbidden
    for (const std::string& name : std::set<std::string>(required)) MAKAR_CHECK_OK(add(name, others));

    ExprPtr extra;  // a further property
    if (further) {
      std::vector<std::string> names;
      for (const Property& p : properties) names.push_back(p.name);
      MAKAR_TRY(auto value, compile(others, path + "/additionalProperties", depth + 1));
      const ExprPtr key = names.empty() ? text_.string() : text_.key_besides(names);
      extra = as_rule(path + " further", sequence({key, literal(":"), text_.blank(), std::move(value)}));
    }
    // `some` and `none`: what may follow when a property was written before, and when none was.
    ExprPtr some = extra ? repeat(sequence({text_.comma(), extra}), 0, -1) : literal("");
    ExprPtr none = extra ? optional(sequence({extra, some})) : literal("");
    for (size_t i = properties.size(); i-- > 0;) {
      const Property& p = properties[i];
      some = as_rule(path + " some", some);
      std::vector<ExprPtr> after = {sequence({text_.comma(), p.pair, some})},
                           first = {sequence({p.pair, some})};
      if (!p.required) after.push_back(some), first.push_back(none);
      some = choice(std::move(after));
      none = choice(std::move(first));
      if (!p.required) none = as_rule(path + " none", none);
    }
    return sequence({literal("{"), text_.blank(), none, text_.blank(), literal("}")});
  }

  const Json kAny = true, kNone = Json::array();
  const Json& root_;
  const Limits& limits_;
  SchemaRules out_;
  JsonText text_;
  std::map<std::string, int> references_;
  size_t work_ = 0;
};

}  // namespace

Result<SchemaRules> read_json_schema(std::string_view text, const Limits& limits) {
  MAKAR_TRY(const Json schema, parse_json(text, "schema", {limits.text, 64}));
  return Compiler(schema, limits).run();
}

}  // namespace makar::grammar
