#include "infer/grammar/schema_compiler.h"

#include <algorithm>

#include "base/shown.h"
#include "infer/grammar/json_merge.h"

namespace makar::grammar {
namespace {

bool only_describes(const Json& schema) {
  for (const auto& item : schema.items())
    if (!is_annotation(item.key())) return false;
  return true;
}

}  // namespace

Result<SchemaRules> SchemaCompiler::run() {
  out_.rules.add("json");
  MAKAR_TRY(auto body, compile(root_, "#", 0));
  out_.rules.bodies[0] = std::move(body);
  auto& notes = out_.not_enforced;
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  return std::move(out_);
}

void SchemaCompiler::note(const std::string& path, const std::string& what) {
  constexpr size_t kNotes = 1000;
  if (out_.not_enforced.size() < kNotes) out_.not_enforced.push_back(path + ": " + shown(what));
}

Result<ExprPtr> SchemaCompiler::compile(const Json& schema, const std::string& path, int depth) {
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
Result<ExprPtr> SchemaCompiler::reference(const Json& schema, const std::string& path, int depth) {
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

Result<const Json*> SchemaCompiler::resolve(const std::string& target, const std::string& path) {
  if (target.empty() || target[0] != '#')
    return bad(path, "$ref " + shown(target) + " leads out of the document; only \"#/...\" is followed");
  try {
    const Json::json_pointer pointer(target.substr(1));
    if (root_.contains(pointer)) return &root_.at(pointer);
  } catch (const Json::exception&) {  // a pointer that is none
  }
  return bad(path, "$ref " + shown(target) + " leads nowhere");
}

Result<ExprPtr> SchemaCompiler::all_of(const Json& schema, const std::string& path, int depth) {
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

Result<ExprPtr> SchemaCompiler::any_of(const Json& schema, const char* keyword, const std::string& path,
                                       int depth) {
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

Result<SchemaRules> read_json_schema(std::string_view text, const Limits& limits) {
  MAKAR_TRY(const Json schema, parse_json(text, "schema", {limits.text, 64}));
  return SchemaCompiler(schema, limits).run();
}

}  // namespace makar::grammar
