#include "infer/grammar/schema_compiler.h"

#include <algorithm>

#include "base/quote.h"
#include "infer/grammar/json_merge.h"

namespace makar::grammar {
namespace {

// True if all keywords other than `except` are annotations.
bool has_only_annotations(const Json& schema, const std::string& except) {
  for (const auto& item : schema.items())
    if (item.key() != except && !is_annotation(item.key())) return false;
  return true;
}

Json without(const Json& schema, const char* keyword) {
  Json out = schema;
  out.erase(keyword);
  return out;
}

// The cost of copying a JSON value, in units of WorkBudget.
int64_t cost_of_copy(const Json& json) {
  int64_t count = 4;
  if (json.is_string()) return 4 + static_cast<int64_t>(json.get_ref<const std::string&>().size() / 64);
  if (json.is_structured())
    for (const Json& value : json) count += cost_of_copy(value);
  return count;
}

// "~1" and "~0" of a JSON pointer mean '/' and '~'.
std::string unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool escape =
        token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    out.push_back(!escape ? token[i] : token[++i] == '1' ? '/' : '~');
  }
  return out;
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
  constexpr size_t kMaxNotes = 1000;
  if (out_.not_enforced.size() < kMaxNotes) out_.not_enforced.push_back(path + ": " + quote(what));
}

Result<ExprPtr> SchemaCompiler::compile(const Json& schema, const std::string& path, int depth) {
  // A rule takes two nodes.
  if (depth > kMaxDepth || ++schemas_ > limits_.nodes || out_.rules.names.size() > limits_.nodes / 2)
    return too_large(path);
  if (!work_.spend(4 + static_cast<int64_t>(schema.size() + path.size() / 64)))
    return work_.error("schema " + path);
  if (schema.is_boolean()) return schema.get<bool>() ? text_.value() : choice({});
  if (!schema.is_object())
    return schema_error(path, "expected an object or a boolean, found " + std::string(schema.type_name()));
  if (schema.contains("$ref")) return reference(schema, path, depth);
  if (schema.contains("allOf")) return all_of(schema, path, depth);
  for (const char* keyword : {"anyOf", "oneOf"})
    if (schema.contains(keyword)) return any_of(schema, keyword, path, depth);
  return compile_value(schema, path, depth);
}

// A separate rule for a part of the document that is referenced elsewhere or may contain itself.
Result<ExprPtr> SchemaCompiler::reference(const Json& schema, const std::string& path, int depth) {
  if (!schema["$ref"].is_string()) return schema_error(path, "$ref must be a string");
  const std::string target = schema["$ref"];
  if (has_only_annotations(schema, "$ref"))
    if (const auto known = references_.find(target); known != references_.end())
      return rule_of(known->second);
  MAKAR_TRY(const Json* referenced, resolve(target, path));
  if (!has_only_annotations(schema, "$ref")) {
    if (!work_.spend(cost_of_copy(schema) + cost_of_copy(*referenced))) return work_.error("schema " + path);
    SchemaMerger merger(*referenced);
    merger.add(without(schema, "$ref"));
    for (const std::string& keyword : merger.unmerged()) note(path, keyword);
    return compile(merger.take(), target, depth + 1);
  }
  const int rule = references_[target] = out_.rules.add(target.substr(0, 100));
  MAKAR_TRY(auto body, compile(*referenced, target, depth + 1));
  out_.rules.bodies[static_cast<size_t>(rule)] = std::move(body);
  return rule_of(rule);
}

// The value at a key or an index; null if there is none. Large objects get a key index: a document may have
// as many references as definitions.
const Json* SchemaCompiler::child(const Json& parent, const std::string& key) {
  constexpr size_t kMaxScannedKeys = 32;
  if (parent.is_array()) {
    const bool number = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == key.npos;
    const size_t index = number ? std::stoul(key) : parent.size();
    return index < parent.size() ? &parent[index] : nullptr;
  }
  if (!parent.is_object()) return nullptr;
  if (parent.size() <= kMaxScannedKeys) {
    const auto found = parent.find(key);
    return found == parent.end() ? nullptr : &*found;
  }
  auto& keys = children_[&parent];
  if (keys.empty())
    for (const auto& [name, value] : parent.items()) keys.emplace(name, &value);
  const auto found = keys.find(key);
  return found == keys.end() ? nullptr : found->second;
}

Result<const Json*> SchemaCompiler::resolve(const std::string& target, const std::string& path) {
  if (target.empty() || target[0] != '#')
    return schema_error(
        path, "$ref " + quote(target) + " points outside the document; only \"#/...\" is supported");
  const Json* at = &root_;
  std::string_view rest = std::string_view(target).substr(1);
  if (!rest.empty() && rest[0] != '/') at = nullptr;
  while (at && !rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    if (!work_.spend()) return work_.error("schema " + path);
    at = child(*at, unescaped(rest.substr(0, end)));
    rest.remove_prefix(end);
  }
  if (!at) return schema_error(path, "$ref " + quote(target) + " points to nothing");
  return at;
}

Result<ExprPtr> SchemaCompiler::all_of(const Json& schema, const std::string& path, int depth) {
  const Json& parts = schema["allOf"];
  if (!parts.is_array() || parts.empty()) return schema_error(path, "allOf must be an array of schemas");
  if (!work_.spend(cost_of_copy(schema))) return work_.error("schema " + path);
  SchemaMerger merger(without(schema, "allOf"));
  for (const Json& part : parts) {
    const Json* resolved = &part;
    for (int i = 0; resolved->is_object() && resolved->size() == 1 && resolved->contains("$ref") &&
                    (*resolved)["$ref"].is_string();
         ++i) {
      if (i > kMaxDepth) return schema_error(path, "$ref is circular");
      MAKAR_TRY(resolved, resolve((*resolved)["$ref"], path));
    }
    if (!resolved->is_object() && !resolved->is_boolean())
      return schema_error(path, "allOf must be an array of schemas");
    if (!work_.spend(4 * cost_of_copy(*resolved))) return work_.error("schema " + path);
    merger.add(*resolved);
  }
  for (const std::string& keyword : merger.unmerged()) note(path, keyword);
  return compile(merger.take(), path, depth + 1);
}

Result<ExprPtr> SchemaCompiler::any_of(const Json& schema, const char* keyword, const std::string& path,
                                       int depth) {
  const Json& parts = schema[keyword];
  if (!parts.is_array() || parts.empty())
    return schema_error(path, std::string(keyword) + " must be an array of schemas");
  const bool no_other_keywords = has_only_annotations(schema, keyword);
  const Json others = no_other_keywords ? Json() : without(schema, keyword);
  const int64_t cost = no_other_keywords ? 0 : cost_of_copy(others);
  if (std::string(keyword) == "oneOf") note(path, "oneOf: exactly one alternative");
  std::vector<ExprPtr> alternatives;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string at = fmt::format("{}/{}/{}", path, keyword, i);
    if (!work_.spend(cost)) return work_.error("schema " + path);
    MAKAR_TRY(auto alternative,
              no_other_keywords ? compile(parts[i], at, depth + 1)
                                : compile(Json{{"allOf", Json::array({parts[i], others})}}, at, depth + 1));
    alternatives.push_back(std::move(alternative));
  }
  return choice(std::move(alternatives));
}

Result<SchemaRules> read_json_schema(std::string_view text, const Limits& limits, WorkBudget& work) {
  MAKAR_TRY(const Json schema, parse_json(text, "schema", {limits.text, 64}));
  return SchemaCompiler(schema, limits, work).run();
}

}  // namespace makar::grammar
