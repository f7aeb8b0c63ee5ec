// POST /v1/responses: items instead of messages, and conversations stored on the server.
#include <fmt/format.h>

#include <set>

#include "base/quote.h"
#include "llm/session.h"
#include "serve/api/fields.h"
#include "serve/api/image_parts.h"
#include "serve/api/messages.h"
#include "serve/api/responses_formatter.h"

namespace makar {
namespace {

Error unsupported(const std::string& place, const std::string& what) {
  return error_of(Error::Kind::kUnsupported, place, "{}", what);
}

Result<std::string> required_text(const Json& object, const char* key, const std::string& place) {
  if (!object.contains(key) || !object[key].is_string())
    return error_at(place + "." + key, "expected a string");
  return object[key].get<std::string>();
}

// Adds a tool call to the preceding assistant message, or to a new one.
void add_call(Json call, Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  messages.back()["tool_calls"].push_back(std::move(call));
}

Status read_item(const Json& item, const std::string& place, Json& messages) {
  if (!item.is_object()) return error_at(place, "expected an object, found {}", kind_of(item));
  MAKAR_TRY(const std::string type, text_field(item, "type", "message"));
  if (type == "message") {
    MAKAR_TRY(const std::string role, required_text(item, "role", place));
    if (!item.contains("content")) return error_at(place + ".content", "is missing");
    const Json& content = item["content"];
    if (content.is_array() && std::any_of(content.begin(), content.end(), is_image_part)) {
      for (size_t i = 0; i < content.size(); ++i)
        if (is_image_part(content[i]) && !content[i].contains("image_url"))
          return error_at(fmt::format("{}.content[{}].image_url", place, i), "is missing");
      messages.push_back({{"role", role}, {"content", content}});  // read with the other messages
    } else {
      MAKAR_TRY(std::string text, read_content(content, place + ".content"));
      messages.push_back({{"role", role}, {"content", std::move(text)}});
    }
  } else if (type == "function_call") {
    MAKAR_TRY(const std::string id, required_text(item, "call_id", place));
    MAKAR_TRY(const std::string name, required_text(item, "name", place));
    MAKAR_TRY(const std::string arguments, required_text(item, "arguments", place));
    add_call({{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}},
             messages);
  } else if (type == "function_call_output") {
    MAKAR_TRY(const std::string id, required_text(item, "call_id", place));
    if (!item.contains("output")) return error_at(place + ".output", "is missing");
    MAKAR_TRY(std::string output, read_content(item["output"], place + ".output"));
    messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(output)}});
  } else if (type != "reasoning") {  // earlier reasoning is not part of the prompt
    return unsupported(place + ".type",
                       "expected message, function_call or function_call_output, got " + quote(type));
  }
  return Done{};
}

// A string is a single user message.
Result<Json> read_input(const Json& body) {
  if (!body.contains("input")) return error_at("input", "is missing; expected a text or a list of items");
  const Json& input = body["input"];
  if (input.is_string()) return Json::array({{{"role", "user"}, {"content", input}}});
  if (!input.is_array() || input.empty())
    return error_at("input", "expected a string or a list of items, found {}",
                    input.is_array() ? "an empty list" : kind_of(input));
  if (input.size() > kMaxSessionMessages)
    return error_at("input", "has {} items; the limit is {}", input.size(), kMaxSessionMessages);
  return input;
}

// {"type": "function", "name", "parameters"} -> {"type": "function", "function": {...}}
Result<Json> read_function_tools(const Json& tools) {
  if (!tools.is_array()) return error_at("tools", "expected a list, found {}", kind_of(tools));
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string place = fmt::format("tools[{}]", i);
    if (!tools[i].is_object()) return error_at(place, "expected an object, found {}", kind_of(tools[i]));
    MAKAR_TRY(const std::string type, required_text(tools[i], "type", place));
    if (type != "function")
      return unsupported(place + ".type", "only function tools are supported, got " + quote(type));
    Json function = Json::object();
    for (const char* key : {"name", "description", "parameters"})
      if (tools[i].contains(key) && !tools[i][key].is_null()) function[key] = tools[i][key];
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Status convert_tools(const Json& body, Json& chat_body) {
  if (body.contains("tools")) {
    MAKAR_TRY(chat_body["tools"], read_function_tools(body["tools"]));
  }
  if (!body.contains("tool_choice")) return Done{};
  const Json& choice = body["tool_choice"];
  if (!choice.is_object()) return chat_body["tool_choice"] = choice, Done{};
  MAKAR_TRY(const std::string type, text_field(choice, "type"));
  if (type != "function") return unsupported("tool_choice.type", "expected function, got " + quote(type));
  MAKAR_TRY(const std::string name, required_text(choice, "name", "tool_choice"));
  chat_body["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
  return Done{};
}

// Converts text.format to response_format, which has one more nesting level.
Status read_text_format(const Json& body, Json& chat_body) {
  MAKAR_TRY(const Json text, object_field(body, "text"));
  if (!text.is_object() || !text.contains("format")) return Done{};
  const Json& format = text["format"];
  if (!format.is_object()) return error_at("text.format", "expected an object, found {}", kind_of(format));
  if (format.value("type", Json()) == Json("json_schema") && !format.contains("schema"))
    return error_at("text.format.schema", "is missing");
  chat_body["response_format"] = format;
  return Done{};
}

Status read_include(const Json& body, Json& chat_body) {
  MAKAR_TRY(const auto include, texts_field(body, "include", 16));
  bool logprobs = false;
  for (const std::string& field : include) {
    if (field == "message.output_text.logprobs") logprobs = true;
    // Accept and ignore fields of tools that are not supported.
    else if (field != "reasoning.encrypted_content" && field.find("_call") == std::string::npos)
      return error_at("include", "unknown value {}", quote(field));
  }
  MAKAR_TRY(const int64_t top, integer_field(body, "top_logprobs", 0, 20, 0));
  if (logprobs || top > 0) chat_body["logprobs"] = true, chat_body["top_logprobs"] = top;
  return Done{};
}

Status check_unsupported(const Json& body) {
  MAKAR_TRY(const bool background, flag_field(body, "background"));
  if (background)
    return unsupported("background", "is not supported; use /v1/batches for work without a waiting client");
  for (const char* key : {"conversation", "prompt"})
    if (body.contains(key))
      return unsupported(key, "is not supported: the server does not store it; send the content in input");
  MAKAR_TRY(const std::string truncation, text_field(body, "truncation", "disabled"));
  if (truncation != "disabled" && truncation != "auto")
    return error_at("truncation", "expected auto or disabled, got {}", quote(truncation));
  return Done{};
}

// Request fields that the response repeats.
Json echoed_fields(const Json& body, const GenerationRequest& request) {
  const auto field_or = [&](const char* key, const Json& fallback) {
    return body.contains(key) ? body[key] : fallback;
  };
  return {{"instructions", field_or("instructions", nullptr)},
          {"max_output_tokens", field_or("max_output_tokens", nullptr)},
          {"metadata", field_or("metadata", Json::object())},
          {"parallel_tool_calls", request.tool_choice.parallel},
          {"previous_response_id", field_or("previous_response_id", nullptr)},
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"temperature", request.options.sampler.temperature},
          {"text", field_or("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", field_or("tool_choice", "auto")},
          {"tools", field_or("tools", Json::array())},
          {"top_p", request.options.sampler.top_p},
          {"truncation", field_or("truncation", "disabled")},
          {"user", field_or("user", nullptr)}};
}

}  // namespace

Result<GenerationRequest> read_response(const Json& body, const RequestContext& context) {
  // Keys that are converted below or have another meaning in chat completions. All others (sampling options)
  // are passed on unchanged.
  static const std::set<std::string> converted_keys = {
      "input",   "instructions", "messages",        "tools",          "tool_choice",
      "text",    "include",      "response_format", "stream_options", "previous_response_id",
      "n",       "best_of",      "logprobs",        "top_logprobs",   "continue_final_message",
      "metadata"};
  MAKAR_RETURN_IF_ERROR(check_unsupported(body));
  MAKAR_TRY(const bool store, flag_field(body, "store", true));
  MAKAR_TRY(const std::string instructions, text_field(body, "instructions"));
  MAKAR_TRY(const std::string previous, text_field(body, "previous_response_id"));
  MAKAR_TRY([[maybe_unused]] const Json metadata, object_field(body, "metadata"));
  MAKAR_TRY(Json input, read_input(body));
  Json chat_body = Json::object(), messages = Json::array();
  for (const auto& [key, value] : body.items())
    if (!converted_keys.contains(key)) chat_body[key] = value;
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  if (!previous.empty()) {
    if (!context.responses)
      return unsupported("previous_response_id", "this server does not store responses");
    MAKAR_TRY(const Json earlier_items, context.responses->conversation(context.owner, previous));
    for (const Json& item : earlier_items)
      MAKAR_RETURN_IF_ERROR(read_item(item, "previous_response_id", messages));
  }
  for (size_t i = 0; i < input.size(); ++i)
    MAKAR_RETURN_IF_ERROR(read_item(input[i], fmt::format("input[{}]", i), messages));
  if (messages.empty()) return error_at("input", "contains no message");
  chat_body["messages"] = std::move(messages);
  MAKAR_RETURN_IF_ERROR(convert_tools(body, chat_body));
  MAKAR_RETURN_IF_ERROR(read_text_format(body, chat_body));
  MAKAR_RETURN_IF_ERROR(read_include(body, chat_body));
  auto request = read_chat_completion(chat_body, context);
  if (!request.ok()) {
    const Error& e = request.error();
    constexpr std::string_view kChatField = "response_format";
    const bool in_format = e.place.starts_with(kChatField);
    return Error{e.kind, in_format ? "text.format" + e.place.substr(kChatField.size()) : e.place, e.message};
  }
  request->drop_oldest = body.value("truncation", Json()) == Json("auto");
  request->formatter = std::make_unique<ResponsesFormatter>(context, echoed_fields(body, *request),
                                                            chat_body.contains("logprobs"), std::move(input),
                                                            store ? context.responses : nullptr);
  return request;
}

}  // namespace makar
