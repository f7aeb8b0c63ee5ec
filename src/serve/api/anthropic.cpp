// Anthropic's messages: POST /v1/messages and /v1/messages/count_tokens. Requests are converted to OpenAI's
// format and read by its reader.
#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/api/generation_request.h"
#include "serve/api/image_parts.h"
#include "serve/api/messages.h"

namespace makar {
namespace {

Json stop_reason(const AnswerEnd& end) {
  if (end.filtered) return "refusal";
  if (end.finish == Finish::kLength || end.finish == Finish::kTime) return "max_tokens";
  if (end.calls) return "tool_use";
  return end.stop_string.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence(const AnswerEnd& end) { return end.stop_string.empty() ? Json() : Json(end.stop_string); }

// input_tokens excludes tokens found in the cache. In a stream, their number is known only at the end.
Json anthropic_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion}};
}

Json input_of(const ToolCall& call) {
  const auto parsed = parse_json(call.arguments, "arguments");
  return parsed.ok() ? *parsed : Json::object();
}

class MessageFormatter : public AnswerFormatter {
 public:
  explicit MessageFormatter(const RequestContext& c)
      : head_{{"id", "msg_" + c.id}, {"type", "message"}, {"role", "assistant"}, {"model", c.model}} {}
  Dialect dialect() const override { return Dialect::kAnthropic; }

  std::string format_complete(const std::vector<CompleteAnswer>& answers, const Usage& usage) override {
    const CompleteAnswer& a = answers.at(0);
    Json content = Json::array();
    if (!a.text.empty() || a.calls.empty()) content.push_back({{"type", "text"}, {"text", a.text}});
    for (const ToolCall& call : a.calls)
      content.push_back(
          {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(call)}});
    Json out = head_;
    out["content"] = std::move(content);
    out["stop_reason"] = stop_reason(a.end), out["stop_sequence"] = stop_sequence(a.end);
    out["usage"] = anthropic_usage(usage);
    return dump(out);
  }

  std::string format_start(const Usage& usage) override {
    Json message = head_;
    message["content"] = Json::array();
    message["stop_reason"] = nullptr, message["stop_sequence"] = nullptr;
    message["usage"] = anthropic_usage(usage);
    return event({{"type", "message_start"}, {"message", std::move(message)}});
  }
  std::string format_delta(size_t, const AnswerPiece& piece) override {
    std::string out;
    if (!piece.text.empty()) {
      if (!block_open_) out += open({{"type", "text"}, {"text", ""}}), block_open_ = true;
      out += delta({{"type", "text_delta"}, {"text", piece.text}});
    }
    for (const ToolCall& call : piece.calls) {
      out += close();
      out += open({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}});
      out += delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
      block_open_ = true;
      out += close();
    }
    return out;
  }
  std::string format_end(size_t, const AnswerEnd& end) override {
    std::string out;
    if (blocks_ == 0 && !block_open_) out += open({{"type", "text"}, {"text", ""}}), block_open_ = true;
    out += close();
    end_ = end;
    return out;
  }
  std::string format_done(const Usage& usage) override {
    return event({{"type", "message_delta"},
                  {"delta", {{"stop_reason", stop_reason(end_)}, {"stop_sequence", stop_sequence(end_)}}},
                  {"usage", anthropic_usage(usage)}}) +
           event({{"type", "message_stop"}});
  }
  std::string format_error(const ApiError& error) override {
    return "event: error\ndata: " + error_body(dialect(), error) + "\n\n";
  }

 private:
  static std::string event(const Json& data) { return sse(data["type"].get<std::string>(), data); }
  std::string open(Json block) const {
    return event({{"type", "content_block_start"}, {"index", blocks_}, {"content_block", std::move(block)}});
  }
  std::string delta(Json change) const {
    return event({{"type", "content_block_delta"}, {"index", blocks_}, {"delta", std::move(change)}});
  }
  std::string close() {
    if (!block_open_) return {};
    block_open_ = false;
    return event({{"type", "content_block_stop"}, {"index", blocks_++}});
  }

  Json head_;
  size_t blocks_ = 0;
  bool block_open_ = false;
  AnswerEnd end_;
};

// Appends one message in OpenAI's format. Tool results become messages of their own.
Status read_blocks(const Json& message, const std::string& place, Json& out) {
  const std::string role = message["role"];
  const Json& content = message["content"];
  if (content.is_string()) return out.push_back({{"role", role}, {"content", content}}), Done{};
  if (!content.is_array()) return error_at(place + ".content", "expected a string or a list");
  std::string text;
  Json calls = Json::array(), results = Json::array(), parts = Json::array();
  bool has_images = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string where = fmt::format("{}.content[{}]", place, i);
    const Json& block = content[i];
    if (!block.is_object()) return error_at(where, "expected an object, found {}", kind_of(block));
    MAKAR_TRY(const std::string type, text_field(block, "type"));
    if (type == "text") {
      MAKAR_TRY(const std::string part, read_content(Json::array({block}), where));
      text += part;
      parts.push_back({{"type", "text"}, {"text", part}});
    } else if (type == "image") {
      MAKAR_TRY(Json part, anthropic_image(block, where));
      parts.push_back(std::move(part));
      has_images = true;
    } else if (type == "tool_use") {
      if (!block.contains("name") || !block["name"].is_string())
        return error_at(where + ".name", "expected a string");
      calls.push_back(
          {{"id", block.value("id", Json(""))},
           {"type", "function"},
           {"function",
            {{"name", block["name"]}, {"arguments", block.value("input", Json(Json::object()))}}}});
    } else if (type == "tool_result") {
      MAKAR_TRY(std::string result, read_content(block.value("content", Json()), where + ".content"));
      results.push_back({{"role", "tool"},
                         {"tool_call_id", block.value("tool_use_id", Json(""))},
                         {"content", std::move(result)}});
    } else if (type != "thinking" && type != "redacted_thinking") {
      return error_of(Error::Kind::kUnsupported, where + ".type",
                      "expected text, image, tool_use or tool_result, got {}", quote(type));
    }
  }
  for (Json& result : results) out.push_back(std::move(result));
  if (!text.empty() || has_images || !calls.empty() || results.empty()) {
    Json openai_message = {{"role", role}, {"content", has_images ? std::move(parts) : Json(text)}};
    if (!calls.empty()) openai_message["tool_calls"] = std::move(calls);
    out.push_back(std::move(openai_message));
  }
  return Done{};
}

// The body of the equivalent request to /v1/chat/completions.
Result<Json> as_openai(const Json& body) {
  Json out = Json::object();
  Json messages = Json::array();
  if (body.contains("system")) {
    MAKAR_TRY(std::string system, read_content(body["system"], "system"));
    messages.push_back({{"role", "system"}, {"content", std::move(system)}});
  }
  if (!body.contains("messages") || !body["messages"].is_array() || body["messages"].empty())
    return error_at("messages", "expected a list of at least one message");
  for (size_t i = 0; i < body["messages"].size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    const Json& m = body["messages"][i];
    if (!m.is_object() || !m.contains("role") || !m.contains("content") ||
        (m["role"] != Json("user") && m["role"] != Json("assistant") && m["role"] != Json("system")))
      return error_at(where, "expected {{\"role\": \"user\", \"assistant\" or \"system\", \"content\"}}");
    MAKAR_RETURN_IF_ERROR(read_blocks(m, where, messages));
  }
  out["continue_final_message"] = messages.back()["role"] == "assistant";
  out["messages"] = std::move(messages);
  if (body.contains("tools")) {
    if (!body["tools"].is_array())
      return error_at("tools", "expected a list, found {}", kind_of(body["tools"]));
    Json tools = Json::array();
    for (size_t i = 0; i < body["tools"].size(); ++i) {
      const Json& tool = body["tools"][i];
      if (!tool.is_object() || !tool.contains("name"))
        return error_at(fmt::format("tools[{}]", i), "expected {{\"name\", \"input_schema\"}}");
      tools.push_back({{"type", "function"},
                       {"function",
                        {{"name", tool["name"]},
                         {"description", tool.value("description", Json(""))},
                         {"parameters", tool.value("input_schema", Json{{"type", "object"}})}}}});
    }
    out["tools"] = std::move(tools);
  }
  MAKAR_TRY(const Json choice, object_field(body, "tool_choice"));
  if (choice.is_object()) {
    MAKAR_TRY(const std::string type, text_field(choice, "type"));
    if (type != "auto" && type != "any" && type != "none" && type != "tool")
      return error_at("tool_choice.type", "expected auto, any, tool or none");
    MAKAR_TRY(const std::string name, text_field(choice, "name"));
    out["tool_choice"] = type == "any"    ? Json("required")
                         : type == "tool" ? Json{{"type", "function"}, {"function", {{"name", name}}}}
                                          : Json(type);
    MAKAR_TRY(const bool single, flag_field(choice, "disable_parallel_tool_use"));
    if (single) out["parallel_tool_calls"] = false;
  }
  for (const char* key : {"model", "max_tokens", "temperature", "top_p", "top_k", "stream", "seed"})
    if (body.contains(key)) out[key] = body[key];
  if (body.contains("stop_sequences")) out["stop"] = body["stop_sequences"];
  return out;
}

}  // namespace

Result<GenerationRequest> read_message(const Json& body, const RequestContext& context) {
  if (!body.contains("max_tokens")) return error_at("max_tokens", "is missing");
  return read_message_tokens(body, context);
}

Result<GenerationRequest> read_message_tokens(const Json& body, const RequestContext& context) {
  MAKAR_TRY(const Json openai_body, as_openai(body));
  MAKAR_TRY(GenerationRequest request, read_chat_completion(openai_body, context));
  request.formatter = std::make_unique<MessageFormatter>(context);
  return request;
}

}  // namespace makar
