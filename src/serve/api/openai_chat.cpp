// POST /v1/chat/completions
#include <algorithm>

#include "serve/api/ask.h"
#include "serve/api/fields.h"
#include "serve/api/messages.h"

namespace makar {
namespace {

Json token_json(int64_t id, float logprob, const std::vector<std::string>& tokens) {
  const std::string& text = token_at(tokens, id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"logprob", std::max(logprob, -9999.0F)}, {"bytes", std::move(bytes)}};
}

class ChatShape : public AnswerShape {
 public:
  ChatShape(const AskContext& c, bool include_usage, bool logprobs)
      : tokens_(c.tokens), include_usage_(include_usage), logprobs_(logprobs) {
    head_ = {{"id", "chatcmpl-" + c.id},
             {"object", "chat.completion.chunk"},
             {"created", c.created},
             {"model", c.model},
             {"system_fingerprint", nullptr}};
  }
  Dialect dialect() const override { return Dialect::kOpenAi; }

  std::string whole(const std::vector<WholeAnswer>& answers, const Usage& usage) override {
    Json choices = Json::array();
    for (size_t i = 0; i < answers.size(); ++i) {
      const WholeAnswer& a = answers[i];
      Json message = {{"role", "assistant"}, {"content", a.text}, {"refusal", nullptr}};
      if (!a.calls.empty()) {
        if (a.text.empty()) message["content"] = nullptr;
        message["tool_calls"] = calls_json(a, false);
      }
      choices.push_back({{"index", i},
                         {"message", std::move(message)},
                         {"logprobs", logprobs_json(a)},
                         {"finish_reason", finish_reason(a.end)}});
    }
    Json out = head_;
    out["object"] = "chat.completion";
    out["choices"] = std::move(choices);
    out["usage"] = usage_json(usage);
    return dump(out);
  }

  std::string piece(size_t answer, const AnswerPiece& piece) override {
    std::string out = introduce(answer);
    if (!piece.text.empty() || !piece.tokens.empty())
      out += chunk(answer, {{"content", piece.text}}, logprobs_json(piece), nullptr);
    if (!piece.calls.empty())
      out += chunk(answer, {{"tool_calls", calls_json(piece, true)}}, nullptr, nullptr);
    return out;
  }
  std::string end(size_t answer, const AnswerEnd& end) override {
    return introduce(answer) + chunk(answer, Json::object(), nullptr, finish_reason(end));
  }
  std::string done(const Usage& usage) override {
    std::string out;
    if (include_usage_) {
      Json last = head_;
      last["choices"] = Json::array();
      last["usage"] = usage_json(usage);
      out = sse(last);
    }
    return out + "data: [DONE]\n\n";
  }
  std::string failed(const ApiError& error) override {
    return "data: " + error_body(dialect(), error) + "\n\ndata: [DONE]\n\n";
  }

 private:
  // Each answer begins with its role.
  std::string introduce(size_t answer) {
    if (answer >= begun_.size()) begun_.resize(answer + 1);
    if (begun_[answer]) return {};
    begun_[answer] = true;
    return chunk(answer, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  }
  std::string chunk(size_t answer, Json delta, Json logprobs, Json finish) const {
    Json out = head_;
    out["choices"] = Json::array({{{"index", answer},
                                   {"delta", std::move(delta)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", std::move(finish)}}});
    if (include_usage_) out["usage"] = nullptr;
    return sse(out);
  }
  static Json calls_json(const AnswerPiece& piece, bool numbered) {
    Json out = Json::array();
    for (size_t i = 0; i < piece.calls.size(); ++i) {
      const ToolCall& call = piece.calls[i];
      Json one = Json::object();
      if (numbered) one["index"] = piece.first_call + i;
      one["id"] = call.id, one["type"] = "function";
      one["function"] = {{"name", call.name}, {"arguments", call.arguments}};
      out.push_back(std::move(one));
    }
    return out;
  }
  Json logprobs_json(const AnswerPiece& piece) const {
    if (!logprobs_) return nullptr;
    Json content = Json::array();
    for (const Written& token : piece.tokens) {
      Json one = token_json(token.id, token.logprobs.chosen, tokens_);
      Json top = Json::array();
      for (const TokenLogprob& t : token.logprobs.top) top.push_back(token_json(t.id, t.logprob, tokens_));
      one["top_logprobs"] = std::move(top);
      content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  Json head_;
  const std::vector<std::string>& tokens_;
  bool include_usage_, logprobs_;
  std::vector<bool> begun_;
};

}  // namespace

Result<Ask> read_chat_completion(const Json& body, const AskContext& context) {
  Ask ask;
  ask.write = context.defaults;
  MAKAR_TRY(ask.model, text_field(body, "model"));
  MAKAR_TRY(ask.stream, flag_field(body, "stream"));
  MAKAR_TRY(const Json stream_options, object_field(body, "stream_options"));
  bool include_usage = false;
  if (stream_options.is_object()) {
    if (!ask.stream) return error_at("stream_options", "is for requests with stream: true");
    MAKAR_TRY(include_usage, flag_field(stream_options, "include_usage"));
  }
  MAKAR_TRY(const bool logprobs, flag_field(body, "logprobs"));
  MAKAR_TRY(const int64_t top, whole_field(body, "top_logprobs", 0, 20, 0));
  if (top > 0 && !logprobs) return error_at("top_logprobs", "is for requests with logprobs: true");
  ask.write.logprobs = logprobs ? top : -1;

  ChatInput chat;
  MAKAR_TRY(chat.messages, read_messages(body));
  MAKAR_TRY(chat.tools, read_tools(body, ask.tool_choice));
  MAKAR_TRY(const Json variables, object_field(body, "chat_template_kwargs"));
  if (variables.is_object()) chat.variables = variables;
  MAKAR_TRY(chat.continue_final_message, flag_field(body, "continue_final_message"));
  MAKAR_TRY(chat.add_generation_prompt,
            flag_field(body, "add_generation_prompt", !chat.continue_final_message));
  if (chat.continue_final_message && chat.add_generation_prompt)
    return error_at("continue_final_message", "excludes add_generation_prompt");
  if (chat.continue_final_message && chat.messages.back()["role"] != "assistant")
    return error_at("continue_final_message", "the last message must be the assistant's");
  ask.chat = std::move(chat);
  MAKAR_CHECK_OK(read_format(body, ask));
  MAKAR_CHECK_OK(read_writing(body, ask));
  ask.shape = std::make_unique<ChatShape>(context, include_usage, logprobs);
  return ask;
}

}  // namespace makar
