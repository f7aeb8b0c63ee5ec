// POST /v1/chat/completions
#include "serve/api/fields.h"
#include "serve/api/messages.h"
#include "serve/api/openai_formatter.h"

namespace makar {
namespace {

class ChatFormatter : public OpenAiFormatter {
 public:
  ChatFormatter(const RequestContext& c, bool include_usage, bool logprobs)
      : OpenAiFormatter(c, "chatcmpl-", "chat.completion.chunk", include_usage, logprobs) {}

  std::string format_complete(const std::vector<CompleteAnswer>& answers, const Usage& usage) override {
    Json choices = Json::array();
    for (size_t i = 0; i < answers.size(); ++i) {
      const CompleteAnswer& a = answers[i];
      Json message = {{"role", "assistant"}, {"content", a.text}, {"refusal", nullptr}};
      if (!a.calls.empty()) {
        if (a.text.empty()) message["content"] = nullptr;
        message["tool_calls"] = calls_json(a, false);
      }
      choices.push_back({{"index", i},
                         {"message", std::move(message)},
                         {"logprobs", piece_logprobs(a)},
                         {"finish_reason", finish_reason(a.end)}});
      if (grounding_) choices.back()["grounding"] = grounding_(a.text);
    }
    Json out = head_;
    if (!sources_.is_null()) out["sources"] = sources_;
    out["object"] = "chat.completion";
    out["choices"] = std::move(choices);
    out["usage"] = usage_json(usage);
    return dump(out);
  }

  std::string format_delta(size_t answer, const AnswerPiece& piece) override {
    std::string out = introduce(answer);
    if (grounding_) texts_[answer] += piece.text;
    if (!piece.text.empty() || !piece.tokens.empty())
      out += delta(answer, {{"content", piece.text}}, piece_logprobs(piece), nullptr);
    if (!piece.calls.empty())
      out += delta(answer, {{"tool_calls", calls_json(piece, true)}}, nullptr, nullptr);
    return out;
  }
  std::string format_end(size_t answer, const AnswerEnd& end) override {
    std::string out = introduce(answer);
    Json choice = choice_json(answer, Json::object(), nullptr, finish_reason(end));
    if (grounding_) choice["grounding"] = grounding_(texts_[answer]);
    return out + chunk(Json::array({std::move(choice)}));
  }
  void add_sources(Json sources, std::function<Json(const std::string& answer)> grounding) override {
    sources_ = std::move(sources), grounding_ = std::move(grounding);
  }

 private:
  // The first chunk of each answer contains the role, and the very first one the sources.
  std::string introduce(size_t answer) {
    const bool first = begun_.empty();
    if (answer >= begun_.size()) begun_.resize(answer + 1), texts_.resize(answer + 1);
    if (begun_[answer]) return {};
    begun_[answer] = true;
    const Json role = {{"role", "assistant"}, {"content", ""}};
    if (!first || sources_.is_null()) return delta(answer, role, nullptr, nullptr);
    head_["sources"] = sources_;
    std::string out = delta(answer, role, nullptr, nullptr);
    head_.erase("sources");
    return out;
  }
  static Json choice_json(size_t answer, Json delta, Json logprobs, Json finish) {
    return {{"index", answer},
            {"delta", std::move(delta)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", std::move(finish)}};
  }
  std::string delta(size_t answer, Json delta, Json logprobs, Json finish) const {
    return chunk(
        Json::array({choice_json(answer, std::move(delta), std::move(logprobs), std::move(finish))}));
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
  Json piece_logprobs(const AnswerPiece& piece) const {
    if (!logprobs_) return nullptr;
    return {{"content", logprobs_json(piece.tokens, tokens_)}, {"refusal", nullptr}};
  }

  std::vector<bool> begun_;  // per answer: its role was sent
  Json sources_;
  std::function<Json(const std::string&)> grounding_;
  std::vector<std::string> texts_;  // with grounding: text streamed so far, per answer
};

}  // namespace

Result<GenerationRequest> read_chat_completion(const Json& body, const RequestContext& context) {
  GenerationRequest request;
  request.options = context.defaults;
  MAKAR_TRY(const bool include_usage, read_stream(body, request));
  MAKAR_TRY(const bool logprobs, flag_field(body, "logprobs"));
  MAKAR_TRY(const int64_t top, integer_field(body, "top_logprobs", 0, 20, 0));
  if (top > 0 && !logprobs) return error_at("top_logprobs", "requires logprobs: true");
  request.options.logprobs = logprobs ? top : -1;

  ChatInput chat;
  MAKAR_TRY(chat.messages, read_messages(body, &request.images));
  MAKAR_TRY(chat.tools, read_tools(body, request.tool_choice));
  MAKAR_TRY(const Json variables, object_field(body, "chat_template_kwargs"));
  if (variables.is_object()) chat.variables = variables;
  MAKAR_TRY(chat.continue_final_message, flag_field(body, "continue_final_message"));
  MAKAR_TRY(chat.add_generation_prompt,
            flag_field(body, "add_generation_prompt", !chat.continue_final_message));
  if (chat.continue_final_message && chat.add_generation_prompt)
    return error_at("continue_final_message", "cannot be combined with add_generation_prompt");
  if (chat.continue_final_message && chat.messages.back()["role"] != "assistant")
    return error_at("continue_final_message", "the last message must be the assistant's");
  request.chat = std::move(chat);
  MAKAR_RETURN_IF_ERROR(read_format(body, request));
  MAKAR_RETURN_IF_ERROR(read_generation_options(body, request));
  request.formatter = std::make_unique<ChatFormatter>(context, include_usage, logprobs);
  return request;
}

}  // namespace makar
