#include "serve/api/messages.h"

#include "base/quote.h"
#include "llm/session.h"
#include "serve/api/fields.h"
#include "serve/api/image_parts.h"

namespace makar {
namespace {

constexpr size_t kMaxTools = 128, kMaxFunctionNameBytes = 256;

// Templates expect call arguments as objects; clients send them as JSON text.
Result<Json> read_calls(const Json& calls, const std::string& place) {
  if (!calls.is_array()) return error_at(place, "expected a list, found {}", kind_of(calls));
  Json out = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", place, i);
    if (!calls[i].is_object() || !calls[i].contains("function") || !calls[i]["function"].is_object())
      return error_at(where, "expected {{\"id\", \"type\": \"function\", \"function\": {{...}}}}");
    Json call = calls[i];
    Json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string())
      return error_at(where + ".function.name", "expected a string");
    if (function.contains("arguments") && function["arguments"].is_string()) {
      const auto parsed = parse_json(function["arguments"].get<std::string>(), where);
      if (parsed.ok()) function["arguments"] = *parsed;
    }
    out.push_back(std::move(call));
  }
  return out;
}

}  // namespace

Result<std::string> read_content(const Json& content, const std::string& place) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return error_at(place, "expected a string or a list, found {}", kind_of(content));
  std::string out;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", place, i);
    const Json& part = content[i];
    if (!part.is_object()) return error_at(where, "expected an object, found {}", kind_of(part));
    MAKAR_TRY(const std::string type, text_field(part, "type"));
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal")
      return error_of(Error::Kind::kUnsupported, where + ".type", "only text is supported here, got {}",
                      quote(type));
    const char* key = type == "refusal" ? "refusal" : "text";
    if (!part.contains(key) || !part[key].is_string())
      return error_at(where + "." + key, "expected a string");
    out += part[key].get<std::string>();
  }
  return out;
}

// Text and image parts, for a chat template that supports images.
static Result<Json> read_parts(const Json& content, const std::string& place,
                               std::vector<RequestImage>& images) {
  Json out = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", place, i);
    if (is_image_part(content[i])) {
      MAKAR_TRY(Json part, read_image_part(content[i], where, images));
      out.push_back(std::move(part));
    } else {
      auto text = read_content(Json::array({content[i]}), "");
      if (!text.ok()) {
        const Error& e = text.error();
        return Error{e.kind, where + (e.place.starts_with("[0]") ? e.place.substr(3) : "." + e.place),
                     e.message};
      }
      out.push_back({{"type", "text"}, {"text", std::move(*text)}});
    }
  }
  return out;
}

Result<Json> read_messages(const Json& body, std::vector<RequestImage>* images) {
  if (!body.contains("messages"))
    return error_at("messages", "is missing; expected a list of {{\"role\", \"content\"}}");
  const Json& messages = body["messages"];
  if (!messages.is_array() || messages.empty())
    return error_at("messages", "expected a list of at least one message, found {}",
                    messages.is_array() ? "an empty list" : kind_of(messages));
  if (messages.size() > kMaxSessionMessages)
    return error_at("messages", "has {} messages; the limit is {}", messages.size(), kMaxSessionMessages);
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!messages[i].is_object())
      return error_at(where, "expected an object, found {}", kind_of(messages[i]));
    if (!messages[i].contains("role") || !messages[i]["role"].is_string())
      return error_at(where + ".role", "expected a string");
    std::string role = messages[i]["role"];
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool" && role != "function")
      return error_at(where + ".role", "expected system, developer, user, assistant or tool, got {}",
                      quote(role));
    const bool has_calls = messages[i].contains("tool_calls") && !messages[i]["tool_calls"].is_null();
    if (!messages[i].contains("content") && !has_calls) return error_at(where + ".content", "is missing");
    const Json content = messages[i].value("content", Json());
    Json message = {{"role", role}};
    if (images && content.is_array() && std::any_of(content.begin(), content.end(), is_image_part)) {
      if (role != "user") return error_at(where + ".content", "only user messages may have images");
      MAKAR_TRY(message["content"], read_parts(content, where + ".content", *images));
    } else {
      MAKAR_TRY(message["content"], read_content(content, where + ".content"));
    }
    if (has_calls) {
      MAKAR_TRY(message["tool_calls"], read_calls(messages[i]["tool_calls"], where + ".tool_calls"));
    }
    for (const char* key : {"name", "tool_call_id", "reasoning_content"})
      if (messages[i].contains(key) && messages[i][key].is_string()) message[key] = messages[i][key];
    out.push_back(std::move(message));
  }
  return out;
}

Result<Json> read_tools(const Json& body, ToolChoice& choice) {
  MAKAR_TRY(choice.parallel, flag_field(body, "parallel_tool_calls", true));
  Json tools;
  if (body.contains("tools")) {
    const Json& tool_list = body["tools"];
    if (!tool_list.is_array()) return error_at("tools", "expected a list, found {}", kind_of(tool_list));
    if (tool_list.size() > kMaxTools)
      return error_at("tools", "has {} tools; the limit is {}", tool_list.size(), kMaxTools);
    for (size_t i = 0; i < tool_list.size(); ++i) {
      const std::string where = fmt::format("tools[{}]", i);
      if (!tool_list[i].is_object() || !tool_list[i].contains("function") ||
          !tool_list[i]["function"].is_object())
        return error_at(where, "expected {{\"type\": \"function\", \"function\": {{\"name\", ...}}}}");
      const Json& function = tool_list[i]["function"];
      if (!function.contains("name") || !function["name"].is_string() ||
          function["name"].get<std::string>().empty() ||
          function["name"].get<std::string>().size() > kMaxFunctionNameBytes)
        return error_at(where + ".function.name", "expected a name of 1 to {} bytes", kMaxFunctionNameBytes);
      if (function.contains("parameters") && !function["parameters"].is_object())
        return error_at(where + ".function.parameters", "expected a JSON schema");
    }
    if (!tool_list.empty()) tools = tool_list;
  }
  using Kind = ToolChoice::Kind;
  if (body.contains("tool_choice")) {
    const Json& choice_value = body["tool_choice"];
    if (choice_value.is_object()) {
      const Json* function = choice_value.contains("function") ? &choice_value["function"] : &choice_value;
      if (!function->is_object() || !function->contains("name") || !(*function)["name"].is_string())
        return error_at("tool_choice.function.name", "expected the name of a tool");
      choice.kind = Kind::kNamed, choice.name = (*function)["name"];
    } else if (choice_value == Json("none") || choice_value == Json("auto") ||
               choice_value == Json("required")) {
      choice.kind = choice_value == Json("none")   ? Kind::kNone
                    : choice_value == Json("auto") ? Kind::kAuto
                                                   : Kind::kRequired;
    } else {
      return error_at("tool_choice", "expected none, auto, required or an object that names a function");
    }
  }
  if (tools.is_null() && (choice.kind == Kind::kRequired || choice.kind == Kind::kNamed))
    return error_at("tool_choice", "there are no tools to choose from");
  if (choice.kind == Kind::kNone) return Json();
  bool found = choice.kind != Kind::kNamed;
  for (const Json& tool : tools.is_array() ? tools : Json::array())
    found = found || tool["function"]["name"] == Json(choice.name);
  if (!found) return error_at("tool_choice", "no tool is called {}", quote(choice.name));
  return tools;
}

}  // namespace makar
