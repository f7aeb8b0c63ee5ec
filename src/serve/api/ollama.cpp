// POST /api/chat and /api/generate: one JSON object per line; streamed by default.
#include <chrono>

#include "serve/api/fields.h"
#include "serve/api/generation_request.h"
#include "serve/api/image_parts.h"

namespace makar {
namespace {

class OllamaFormatter : public AnswerFormatter {
 public:
  OllamaFormatter(const RequestContext& c, bool chat)
      : head_{{"model", c.model}, {"created_at", utc(c.created)}}, chat_(chat) {}
  Dialect dialect() const override { return Dialect::kOllama; }
  const char* stream_type() const override { return "application/x-ndjson"; }

  std::string format_complete(const std::vector<CompleteAnswer>& answers, const Usage& usage) override {
    return last(message_json(answers.at(0)), answers[0].end, usage);
  }
  std::string format_delta(size_t, const AnswerPiece& piece) override {
    Json out = message_json(piece);
    out["done"] = false;
    return dump(out) + "\n";
  }
  std::string format_end(size_t, const AnswerEnd& end) override { return end_ = end, ""; }
  std::string format_done(const Usage& usage) override { return last(message_json({}), end_, usage) + "\n"; }
  std::string format_error(const ApiError& error) override { return error_body(dialect(), error) + "\n"; }

 private:
  Json message_json(const AnswerPiece& piece) const {
    Json out = head_;
    if (!chat_) return out["response"] = piece.text, out;
    Json message = {{"role", "assistant"}, {"content", piece.text}};
    for (const ToolCall& call : piece.calls) {
      const auto arguments = parse_json(call.arguments, "arguments");
      message["tool_calls"].push_back(
          {{"function", {{"name", call.name}, {"arguments", arguments.ok() ? *arguments : Json::object()}}}});
    }
    return out["message"] = std::move(message), out;
  }
  // The object that ends the answer: the reason, durations in nanoseconds, token counts.
  std::string last(Json out, const AnswerEnd& end, const Usage& usage) const {
    using namespace std::chrono;
    const int64_t ns = duration_cast<nanoseconds>(steady_clock::now() - began_).count();
    const bool length = end.finish == Finish::kLength || end.finish == Finish::kTime;
    out["done"] = true, out["done_reason"] = end.filtered ? "content_filter" : length ? "length" : "stop";
    out["total_duration"] = ns, out["load_duration"] = 0;
    out["prompt_eval_count"] = usage.prompt, out["eval_count"] = usage.completion, out["eval_duration"] = ns;
    return dump(out);
  }

  Json head_;
  bool chat_;
  AnswerEnd end_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// The fields that all requests of this API share, converted to OpenAI's.
Result<Json> shared_keys(const Json& body) {
  Json out = Json::object();
  MAKAR_TRY(const Json options, object_field(body, "options"));
  if (options.is_object())
    for (const auto& [key, value] : options.items())
      if (key != "num_ctx" && key != "num_predict" && key != "n" && key != "best_of") out[key] = value;
  if (options.is_object() && options.contains("num_predict")) {
    MAKAR_TRY(const int64_t max, integer_field(options, "num_predict", -2, 1 << 20, -1));
    if (max > 0) out["max_tokens"] = max;  // 0 or less: no limit
  }
  out["model"] = body.value("model", Json(""));
  MAKAR_TRY(const bool stream, flag_field(body, "stream", true));
  out["stream"] = stream;
  if (body.contains("format") && body["format"] != Json("")) {
    const Json& format = body["format"];
    if (format == Json("json"))
      out["response_format"] = {{"type", "json_object"}};
    else if (format.is_object())
      out["guided_json"] = format;
    else
      return error_at("format", "expected \"json\" or a JSON schema, found {}", kind_of(format));
  }
  return out;
}

}  // namespace

Result<GenerationRequest> read_ollama_chat(const Json& body, const RequestContext& context) {
  MAKAR_TRY(Json openai_body, shared_keys(body));
  for (const char* key : {"messages", "tools"})
    if (body.contains(key)) openai_body[key] = body[key];
  // A message with tool calls may have no content.
  if (openai_body.contains("messages") && openai_body["messages"].is_array())
    for (size_t i = 0; i < openai_body["messages"].size(); ++i) {
      Json& message = openai_body["messages"][i];
      if (message.is_object() && !message.contains("content")) message["content"] = "";
      MAKAR_RETURN_IF_ERROR(add_ollama_images(message, fmt::format("messages[{}].", i)));
    }
  if (body.contains("think")) openai_body["chat_template_kwargs"] = {{"enable_thinking", body["think"]}};
  MAKAR_TRY(GenerationRequest request, read_chat_completion(openai_body, context));
  request.formatter = std::make_unique<OllamaFormatter>(context, true);
  return request;
}

Result<GenerationRequest> read_ollama_generate(const Json& body, const RequestContext& context) {
  MAKAR_TRY(Json openai_body, shared_keys(body));
  MAKAR_TRY(const std::string prompt, text_field(body, "prompt"));
  MAKAR_TRY(const std::string system, text_field(body, "system"));
  MAKAR_TRY(const bool raw, flag_field(body, "raw"));
  MAKAR_TRY(const std::string suffix, text_field(body, "suffix"));
  const auto read = [&]() -> Result<GenerationRequest> {
    if (!suffix.empty()) openai_body["suffix"] = suffix;
    if (raw || !suffix.empty()) {  // chat templates support no suffix
      openai_body["prompt"] = prompt;
      if (!openai_body.contains("max_tokens")) openai_body["max_tokens"] = context.defaults.max_new_tokens;
      return read_completion(openai_body, context);
    }
    openai_body["messages"] = Json::array();
    if (!system.empty()) openai_body["messages"].push_back({{"role", "system"}, {"content", system}});
    Json message = {{"role", "user"}, {"content", prompt}};
    if (body.contains("images")) message["images"] = body["images"];
    MAKAR_RETURN_IF_ERROR(add_ollama_images(message, ""));
    openai_body["messages"].push_back(std::move(message));
    return read_chat_completion(openai_body, context);
  };
  MAKAR_TRY(GenerationRequest request, read());
  request.formatter = std::make_unique<OllamaFormatter>(context, false);
  return request;
}

}  // namespace makar
