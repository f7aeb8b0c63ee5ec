#include "infer/grammar/json_merge.h"

#include <algorithm>
#include <set>

namespace makar::grammar {
namespace {

struct JsonLess {
  bool operator()(const Json* a, const Json* b) const { return *a < *b; }
};
using JsonSet = std::set<const Json*, JsonLess>;

JsonSet set_of_values(const Json& list) {
  JsonSet out;
  for (const Json& value : list) out.insert(&value);
  return out;
}

Json list_of(const Json& value) { return value.is_array() ? value : Json::array({value}); }

Json common_values(const Json& a, const Json& b) {
  const JsonSet other = set_of_values(b);
  Json out = Json::array();
  for (const Json& value : a)
    if (other.count(&value)) out.push_back(value);
  return out;
}

// Every integer is a number.
Json common_types(const Json& a, const Json& b) {
  static const Json kNumber = "number", kInteger = "integer";
  const JsonSet first = set_of_values(a), second = set_of_values(b);
  const auto narrows = [&](const JsonSet& numbers, const JsonSet& integers) {
    return numbers.count(&kNumber) && integers.count(&kInteger);
  };
  Json out = common_values(a, b);
  if (!set_of_values(out).count(&kInteger) && (narrows(first, second) || narrows(second, first)))
    out.push_back(kInteger);
  return out;
}

// Combines two schemas that must both hold. `joined`: `merged` is an allOf created here; extend it instead of
// nesting.
void join(Json& merged, const Json& other, bool joined) {
  if (joined)
    merged["allOf"].push_back(other);
  else
    merged = Json{{"allOf", Json::array({std::move(merged), other})}};
}

// The fields of an object as a list, to avoid ordered_json's linear key search.
std::vector<Json::object_t::value_type>& fields_of(Json& object) { return object.get_ref<Json::object_t&>(); }

}  // namespace

bool is_annotation(const std::string& keyword) {
  static const std::unordered_set<std::string> kNames = {
      "title",     "description", "default", "examples",    "example",         "$schema",         "$id",
      "id",        "$comment",    "$defs",   "definitions", "$anchor",         "deprecated",      "readOnly",
      "writeOnly", "strict",      "name",    "$vocabulary", "contentEncoding", "contentMediaType"};
  return kNames.count(keyword) > 0;
}

void SchemaMerger::add_required(Json& merged, const Json& other) {
  const auto note = [this](const Json& name) {
    return !name.is_string() || required_.insert(name.get<std::string>()).second;
  };
  if (required_.empty())
    for (const Json& name : merged) note(name);
  for (const Json& name : other)
    if (note(name)) merged.push_back(name);
}

void SchemaMerger::add_properties(Json& merged, const Json& other) {
  auto& fields = fields_of(merged);
  if (properties_.empty())
    for (size_t i = 0; i < fields.size(); ++i) properties_.emplace(fields[i].first, Property{i});
  for (const auto& [name, schema] : other.items()) {
    const auto [found, added] = properties_.try_emplace(name, Property{fields.size()});
    if (added) {
      fields.emplace_back(name, schema);
      continue;
    }
    Json& old = fields[found->second.index].second;
    if (old == schema) continue;
    join(old, schema, std::exchange(found->second.joined, true));
  }
}

void SchemaMerger::add_keyword(const std::string& key, const Json& value) {
  Json& merged = merged_[key];
  const bool lists = merged.is_array() && value.is_array();
  if (key == "type") {
    merged = common_types(list_of(merged), list_of(value));
  } else if (key == "enum" && lists) {
    merged = common_values(merged, value);
  } else if (key == "required" && lists) {
    add_required(merged, value);
  } else if (key == "properties" && merged.is_object() && value.is_object()) {
    add_properties(merged, value);
  } else if (key == "allOf" && lists) {
    for (const Json& one : value) merged.push_back(one);
  } else if (key == "items" || key == "additionalProperties") {
    if (merged == value) return;
    if (merged == false || value == false)
      merged = false, joined_.erase(key);
    else
      join(merged, value, !joined_.insert(key).second);
  } else if (merged.is_number() && value.is_number() &&
             (key == "minimum" || key == "exclusiveMinimum" || key == "minLength" || key == "minItems")) {
    if (value.get<double>() > merged.get<double>()) merged = value;
  } else if (merged.is_number() && value.is_number() &&
             (key == "maximum" || key == "exclusiveMaximum" || key == "maxLength" || key == "maxItems")) {
    if (value.get<double>() < merged.get<double>()) merged = value;
  } else if (merged != value) {
    unmerged_.push_back(key);
  }
}

void SchemaMerger::add(const Json& schema) {
  if (merged_.is_boolean()) {
    if (merged_.get<bool>()) merged_ = schema;
    return;
  }
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) merged_ = schema;
    return;
  }
  for (const auto& [key, value] : schema.items()) {
    if (is_annotation(key)) continue;
    if (merged_.contains(key))
      add_keyword(key, value);
    else
      fields_of(merged_).emplace_back(key, value);
  }
}

}  // namespace makar::grammar
