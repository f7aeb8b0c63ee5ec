#include "serve/api/messages.h"

#include "base/quote.h"
#include "llm/session.h"
#include "serve/api/fields.h"
#include "serve/api/image_parts.h"

namespace makar {
namespace {

constexpr size_t kMaxTools = 128, kLongestFunctionName = 256;

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
      return error_of(Error::Kind::kUnsupported, where + ".type", "this model supports only text, got {}",
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
    return error_at("messages", "is missing: a list of {{\"role\", \"content\"}}");
  const Json& given = body["messages"];
  if (!given.is_array() || given.empty())
    return error_at("messages", "expected a list of at least one message, found {}",
                    given.is_array() ? "an empty list" : kind_of(given));
  if (given.size() > kMaxSessionMessages)
    return error_at("messages", "has {} messages; the limit is {}", given.size(), kMaxSessionMessages);
  Json out = Json::array();
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!given[i].is_object()) return error_at(where, "expected an object, found {}", kind_of(given[i]));
    if (!given[i].contains("role") || !given[i]["role"].is_string())
      return error_at(where + ".role", "expected a string");
    std::string role = given[i]["role"];
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool" && role != "function")
      return error_at(where + ".role", "expected system, developer, user, assistant or tool, got {}",
                      quote(role));
    const bool calls = given[i].contains("tool_calls") && !given[i]["tool_calls"].is_null();
    if (!given[i].contains("content") && !calls) return error_at(where + ".content", "is missing");
    const Json content = given[i].value("content", Json());
    Json message = {{"role", role}};
    if (images && content.is_array() && std::any_of(content.begin(), content.end(), is_image_part)) {
      if (role != "user") return error_at(where + ".content", "only user messages may have images");
      MAKAR_TRY(message["content"], read_parts(content, where + ".content", *images));
    } else {
      MAKAR_TRY(message["content"], read_content(content, where + ".content"));
    }
    if (calls) {
      MAKAR_TRY(message["tool_calls"], read_calls(given[i]["tool_calls"], where + ".tool_calls"));
    }
    for (const char* key : {"name", "tool_call_id", "reasoning_content"})
      if (given[i].contains(key) && given[i][key].is_string()) message[key] = given[i][key];
    out.push_back(std::move(message));
  }
  return out;
}

Result<Json> read_tools(const Json& body, ToolChoice& choice) {
  MAKAR_TRY(choice.parallel, flag_field(body, "parallel_tool_calls", true));
  Json tools;
  if (body.contains("tools")) {
    const Json& given = body["tools"];
    if (!given.is_array()) return error_at("tools", "expected a list, found {}", kind_of(given));
    if (given.size() > kMaxTools)
      return error_at("tools", "has {} tools; the limit is {}", given.size(), kMaxTools);
    for (size_t i = 0; i < given.size(); ++i) {
      const std::string where = fmt::format("tools[{}]", i);
      if (!given[i].is_object() || !given[i].contains("function") || !given[i]["function"].is_object())
        return error_at(where, "expected {{\"type\": \"function\", \"function\": {{\"name\", ...}}}}");
      const Json& function = given[i]["function"];
      if (!function.contains("name") || !function["name"].is_string() ||
          function["name"].get<std::string>().empty() ||
          function["name"].get<std::string>().size() > kLongestFunctionName)
        return error_at(where + ".function.name", "expected a name of 1 to {} bytes", kLongestFunctionName);
      if (function.contains("parameters") && !function["parameters"].is_object())
        return error_at(where + ".function.parameters", "expected a JSON schema");
    }
    if (!given.empty()) tools = given;
  }
  using Kind = ToolChoice::Kind;
  if (body.contains("tool_choice")) {
    const Json& given = body["tool_choice"];
    if (given.is_object()) {
      const Json* function = given.contains("function") ? &given["function"] : &given;
      if (!function->is_object() || !function->contains("name") || !(*function)["name"].is_string())
        return error_at("tool_choice.function.name", "expected the name of a tool");
      choice.kind = Kind::kNamed, choice.name = (*function)["name"];
    } else if (given == Json("none") || given == Json("auto") || given == Json("required")) {
      choice.kind = given == Json("none")   ? Kind::kNone
                    : given == Json("auto") ? Kind::kAuto
                                            : Kind::kRequired;
    } else {
      return error_at("tool_choice", "expected none, auto, required or the name of a function");
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
