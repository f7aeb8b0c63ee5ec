// Compiles the schemas of arrays and objects.
#include <algorithm>
#include <cmath>
#include <set>

#include "infer/grammar/schema_compiler.h"

namespace makar::grammar {

Result<std::optional<int64_t>> SchemaCompiler::count(const Json& schema, const char* keyword,
                                                     const std::string& path) {
  if (!schema.contains(keyword)) return std::optional<int64_t>();
  const Json& value = schema[keyword];
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number < 0 || std::floor(number) != number)
    return schema_error(path, std::string(keyword) + " must be a non-negative integer");
  if (number > static_cast<double>(kMaxCount)) {
    note(path, keyword);
    return std::optional<int64_t>();
  }
  return std::optional<int64_t>(static_cast<int64_t>(number));
}

// Makes a rule of an expression that is used several times.
ExprPtr SchemaCompiler::as_rule(std::string name, ExprPtr body) {
  constexpr size_t kMaxNameBytes =
      100;  // names appear only in errors; limits memory for long paths and many rules
  if (name.size() > kMaxNameBytes) name.erase(0, name.size() - kMaxNameBytes);
  return body->kind == Expr::Kind::kRule ? body : rule_of(out_.rules.add(std::move(name), std::move(body)));
}

Result<ExprPtr> SchemaCompiler::array(const Json& schema, const std::string& path, int depth) {
  MAKAR_TRY(const auto min_items, count(schema, "minItems", path));
  MAKAR_TRY(const auto max_items, count(schema, "maxItems", path));
  std::vector<ExprPtr> prefix_items;
  const Json& prefix = schema.contains("prefixItems") ? schema["prefixItems"] : kNone;
  const bool old_syntax =
      schema.contains("items") && schema["items"].is_array();  // items as a list, as in older drafts
  for (const Json& one : old_syntax ? schema["items"] : prefix) {
    MAKAR_TRY(auto item,
              compile(one, fmt::format("{}/prefixItems/{}", path, prefix_items.size()), depth + 1));
    prefix_items.push_back(as_rule(path + " item", std::move(item)));
  }
  const Json& others = old_syntax || !schema.contains("items") ? kAny : schema["items"];
  const int64_t min = min_items.value_or(0), prefix_count = static_cast<int64_t>(prefix_items.size());
  int64_t max = max_items ? *max_items : -1;
  if (others == false) max = max < 0 ? prefix_count : std::min(max, prefix_count);
  ExprPtr tail = literal("");
  if (max < 0 || max > prefix_count) {
    MAKAR_TRY(auto item, compile(others, path + "/items", depth + 1));
    item = as_rule(path + "/items", std::move(item));
    const ExprPtr next_item = sequence({text_.comma(), item});
    if (prefix_count > 0) {
      tail = repeat(next_item, std::max<int64_t>(min - prefix_count, 0), max < 0 ? -1 : max - prefix_count);
    } else {
      tail = sequence({item, repeat(next_item, std::max<int64_t>(min - 1, 0), max < 0 ? -1 : max - 1)});
      if (min == 0) tail = optional(tail);
    }
  }
  if (max >= 0 && max < min) return choice({});
  for (int64_t i = std::min(prefix_count, max < 0 ? prefix_count : max); i-- > 0;) {
    tail = sequence({i > 0 ? text_.comma() : literal(""), prefix_items[static_cast<size_t>(i)], tail});
    tail = as_rule(path + " items", i >= min ? optional(tail) : tail);
  }
  return sequence({literal("["), text_.blank(), tail, text_.blank(), literal("]")});
}

Result<ExprPtr> SchemaCompiler::object(const Json& schema, const std::string& path, int depth) {
  struct Property {
    std::string name;
    ExprPtr pair;
    bool required;
  };
  std::vector<Property> properties;
  std::set<std::string> required;
  if (schema.contains("required")) {
    if (!schema["required"].is_array()) return schema_error(path, "required must be an array of names");
    for (const Json& name : schema["required"]) {
      if (!name.is_string()) return schema_error(path, "required must be an array of names");
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
    if (!schema["properties"].is_object()) return schema_error(path, "properties must be an object");
    if (schema["properties"].size() * kPropertyRules > limits_.nodes / 2) return too_large(path);
    for (const auto& [name, value] : schema["properties"].items()) MAKAR_RETURN_IF_ERROR(add(name, value));
  }
  const bool allows_others = schema.contains("additionalProperties") ? schema["additionalProperties"] != false
                                                                     : !schema.contains("properties");
  const Json& others = schema.contains("additionalProperties") ? schema["additionalProperties"] : kAny;
  if (!required.empty() && !allows_others) return choice({});  // required but not allowed
  for (const std::string& name : std::set<std::string>(required)) MAKAR_RETURN_IF_ERROR(add(name, others));

  ExprPtr extra;  // an additional property
  if (allows_others) {
    std::vector<std::string> names;
    for (const Property& p : properties) names.push_back(p.name);
    MAKAR_TRY(auto value, compile(others, path + "/additionalProperties", depth + 1));
    const ExprPtr key = names.empty() ? text_.string() : text_.key_except(names);
    extra = as_rule(path + " further", sequence({key, literal(":"), text_.blank(), std::move(value)}));
  }
  // The rest of the object: `some` if a property has been written before it, `none` if none has.
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

}  // namespace makar::grammar
