// Loads the chat template of a model folder from the places the Hugging Face libraries use.
#include "base/file.h"
#include "base/nearest.h"
#include "text/template/chat_template.h"

namespace makar {
namespace {

constexpr size_t kMaxConfigBytes = size_t{64} << 20;

// A token is a string, or an object with its text under "content".
void read_tokens(const Json& config, ChatTemplate& t) {
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string())
      t.set_token(key, value.get<std::string>());
    else if (value.is_object() && value.contains("content") && value["content"].is_string())
      t.set_token(key, value["content"].get<std::string>());
  }
}

// Selects from the chat_template field: one template, or a list of {"name", "template"}.
Result<std::string> select_template(const Json& field, const std::string& place, const std::string& name) {
  if (field.is_string()) {
    if (!name.empty() && name != "default")
      return error_at(place, "has one unnamed chat template, none named '{}'", name);
    return field.get<std::string>();
  }
  if (!field.is_array())
    return error_at(place, "chat_template must be a string or a list, found {}", field.type_name());
  std::vector<std::string> known;
  for (const Json& entry : field) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("template") || !entry["template"].is_string())
      return error_at(place, "each entry of the chat_template list must have a name and a template");
    known.push_back(entry["name"].get<std::string>());
    if (known.back() == (name.empty() ? "default" : name)) return entry["template"].get<std::string>();
  }
  return error_of(Error::Kind::kNotFound, place, "no chat template named '{}'; expected one of {}{}",
                  name.empty() ? "default" : name, fmt::join(known, ", "), did_you_mean(name, known));
}

}  // namespace

Result<ChatTemplate> ChatTemplate::load(const std::string& folder, const std::string& name,
                                        const TemplateLimits& limits) {
  const std::string config_path = folder + "/tokenizer_config.json";
  Json config = Json::object();
  if (is_file(config_path)) {
    MAKAR_TRY(config, read_json(config_path, {kMaxConfigBytes, 64}));
    if (!config.is_object()) return error_at(config_path, "expected an object, found {}", config.type_name());
  }
  std::string source, place;
  const std::string jinja_path = folder + "/chat_template.jinja", json_path = folder + "/chat_template.json";
  const std::string named_path = folder + "/additional_chat_templates/" + name + ".jinja";
  if (!name.empty() && name != "default" && name.find('/') == std::string::npos && is_file(named_path)) {
    place = named_path;
    MAKAR_TRY(source, read_file(place, static_cast<size_t>(limits.max_template_bytes)));
  } else if (is_file(jinja_path)) {
    place = jinja_path;
    MAKAR_TRY(source, read_file(place, static_cast<size_t>(limits.max_template_bytes)));
  } else if (is_file(json_path)) {
    place = json_path;
    MAKAR_TRY(const Json file, read_json(json_path, {kMaxConfigBytes, 64}));
    if (!file.is_object() || !file.contains("chat_template"))
      return error_at(json_path, "expected an object with chat_template");
    MAKAR_TRY(source, select_template(file["chat_template"], json_path, name));
  } else if (config.contains("chat_template") && !config["chat_template"].is_null()) {
    place = config_path;
    MAKAR_TRY(source, select_template(config["chat_template"], config_path, name));
  } else {
    return error_of(Error::Kind::kNotFound, folder,
                    "has no chat template: neither chat_template.jinja nor chat_template in "
                    "tokenizer_config.json");
  }
  MAKAR_TRY(ChatTemplate t, parse(source, place, limits));
  const std::string map_path = folder + "/special_tokens_map.json";
  if (is_file(map_path)) {
    MAKAR_TRY(const Json map, read_json(map_path, {size_t{16} << 20, 64}));
    if (map.is_object()) read_tokens(map, t);
  }
  read_tokens(config, t);
  return t;
}

}  // namespace makar
