// Typed access to the fields of a component in a tokenizer.json; errors name the field.
#pragma once
#include <optional>
#include <string>

#include "base/json.h"

namespace makar {

inline const Json* find_field(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline Error wrong_field(const Json& object, const char* key, const char* expected) {
  const Json* found = find_field(object, key);
  return error_at(key, "expected {}, found {}", expected, found ? found->type_name() : "nothing");
}

inline Result<bool> bool_field(const Json& object, const char* key,
                               std::optional<bool> fallback = std::nullopt) {
  const Json* found = find_field(object, key);
  if (!found && fallback) return *fallback;
  if (!found || !found->is_boolean()) return wrong_field(object, key, "true or false");
  return found->get<bool>();
}

inline Result<std::string> string_field(const Json& object, const char* key,
                                        std::optional<std::string> fallback = std::nullopt) {
  const Json* found = find_field(object, key);
  if (!found && fallback) return *fallback;
  if (!found || !found->is_string()) return wrong_field(object, key, "a string");
  return found->get<std::string>();
}

inline Result<uint64_t> count_field(const Json& object, const char* key,
                                    std::optional<uint64_t> fallback = std::nullopt) {
  const Json* found = find_field(object, key);
  if (!found && fallback) return *fallback;
  if (!found || !found->is_number_integer() ||
      (found->is_number_integer() && !found->is_number_unsigned() && found->get<int64_t>() < 0))
    return wrong_field(object, key, "a non-negative integer");
  return found->get<uint64_t>();
}

inline Result<const Json*> list_field(const Json& object, const char* key) {
  const Json* found = find_field(object, key);
  if (!found || !found->is_array()) return wrong_field(object, key, "a list");
  return found;
}

}  // namespace makar
