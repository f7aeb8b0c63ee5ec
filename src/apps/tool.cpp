#include "apps/tool.h"

#include "base/nearest.h"
#include "base/quote.h"

namespace makar {

Json text_parameters(const std::string& name, const std::string& description) {
  return {{"type", "object"},
          {"properties", {{name, {{"type", "string"}, {"description", description}}}}},
          {"required", Json::array({name})},
          {"additionalProperties", false}};
}

Status check_input(const Json& schema, const Json& input) {
  if (!input.is_object()) return error_at("input", "expected an object");
  static const Json kNone = Json::object();
  const Json& properties =
      schema.contains("properties") && schema["properties"].is_object() ? schema["properties"] : kNone;
  if (schema.contains("required") && schema["required"].is_array())
    for (const Json& name : schema["required"])
      if (name.is_string() && !input.contains(name.get<std::string>()))
        return error_at("input", "{} is missing", quote(name.get<std::string>()));
  std::vector<std::string> known;
  for (const auto& [name, value] : properties.items()) known.push_back(name);
  for (const auto& [name, value] : input.items()) {
    const auto found = properties.find(name);
    if (found == properties.end()) {
      if (schema.value("additionalProperties", Json(true)) == Json(false))
        return error_at("input", "unknown field {}{}", quote(name), did_you_mean(name, known));
      continue;
    }
    if (!found->is_object() || !found->contains("type") || !(*found)["type"].is_string()) continue;
    const std::string type = (*found)["type"];
    const bool fits = (type == "string" && value.is_string()) || (type == "number" && value.is_number()) ||
                      (type == "integer" && value.is_number_integer()) ||
                      (type == "boolean" && value.is_boolean()) || (type == "array" && value.is_array()) ||
                      (type == "object" && value.is_object()) || (type == "null" && value.is_null());
    if (!fits) return error_at("input", "{} must be of type {}", quote(name), quote(type));
    if (found->contains("enum") && (*found)["enum"].is_array()) {
      bool one = false;
      for (const Json& choice : (*found)["enum"]) one = one || choice == value;
      if (!one) return error_at("input", "{} must be one of {}", quote(name), dump((*found)["enum"]));
    }
  }
  return Done{};
}

}  // namespace makar
