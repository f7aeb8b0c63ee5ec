// POST /v1/completions
#include <algorithm>

#include "serve/api/fields.h"
#include "serve/api/openai_formatter.h"

namespace makar {
namespace {

constexpr size_t kMaxPrompts = 128;

class CompletionFormatter : public OpenAiFormatter {
 public:
  CompletionFormatter(const RequestContext& c, bool include_usage, bool logprobs)
      : OpenAiFormatter(c, "cmpl-", "text_completion", include_usage, logprobs) {}

  std::string format_complete(const std::vector<CompleteAnswer>& answers, const Usage& usage) override {
    Json out = head_;
    out["choices"] = Json::array();
    for (size_t i = 0; i < answers.size(); ++i)
      out["choices"].push_back(choice(i, answers[i], finish_reason(answers[i].end)));
    out["usage"] = usage_json(usage);
    return dump(out);
  }
  std::string format_delta(size_t answer, const AnswerPiece& piece) override {
    return chunk(Json::array({choice(answer, piece, nullptr)}));
  }
  std::string format_end(size_t answer, const AnswerEnd& end) override {
    return chunk(Json::array({choice(answer, {}, finish_reason(end))}));
  }

 private:
  Json choice(size_t index, const AnswerPiece& piece, Json finish) const {
    return {{"index", index},
            {"text", piece.text},
            {"logprobs", logprobs_json(piece)},
            {"finish_reason", std::move(finish)}};
  }
  Json logprobs_json(const AnswerPiece& piece) const {
    if (!logprobs_) return nullptr;
    Json tokens = Json::array(), values = Json::array(), tops = Json::array();
    for (const GeneratedToken& token : piece.tokens) {
      const bool has_logprob = token.logprobs.rank >= 0;
      const std::string& text = token_at(tokens_, token.id);
      Json top = Json::object();
      for (const TokenLogprob& t : token.logprobs.top)
        top[token_at(tokens_, t.id)] = std::max(t.logprob, kMinLogprob);
      tokens.push_back(text);
      values.push_back(has_logprob ? Json(std::max(token.logprobs.chosen, kMinLogprob)) : Json());
      tops.push_back(has_logprob ? std::move(top) : Json());
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(values)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", piece.text_offsets}};
  }
};

Result<std::vector<int64_t>> read_ids(const Json& list, const std::string& place) {
  std::vector<int64_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0)
      return error_at(place, "expected token ids, found {}", kind_of(id));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

// `prompt`: a string, strings, ids, or lists of ids.
Result<std::vector<PromptInput>> read_prompts(const Json& body) {
  std::vector<PromptInput> out;
  if (!body.contains("prompt")) return error_at("prompt", "is missing");
  const Json& prompt = body["prompt"];
  if (prompt.is_string()) return out.emplace_back(prompt.get<std::string>()), out;
  if (!prompt.is_array() || prompt.empty())
    return error_at("prompt", "expected a string, or a list of strings or of token ids, found {}",
                    prompt.is_array() ? "an empty list" : kind_of(prompt));
  if (prompt[0].is_number()) {
    MAKAR_TRY(auto ids, read_ids(prompt, "prompt"));
    return out.emplace_back(std::move(ids)), out;
  }
  if (prompt.size() > kMaxPrompts)
    return error_at("prompt", "has {} entries; the limit is {}", prompt.size(), kMaxPrompts);
  for (size_t i = 0; i < prompt.size(); ++i) {
    const std::string place = fmt::format("prompt[{}]", i);
    if (prompt[i].is_string()) {
      out.emplace_back(prompt[i].get<std::string>());
    } else if (prompt[i].is_array() && !prompt[i].empty()) {
      MAKAR_TRY(auto ids, read_ids(prompt[i], place));
      out.emplace_back(std::move(ids));
    } else {
      return error_at(place, "expected a string or a list of token ids, found {}", kind_of(prompt[i]));
    }
  }
  return out;
}

}  // namespace

Result<GenerationRequest> read_completion(const Json& body, const RequestContext& context) {
  GenerationRequest request;
  request.options = context.defaults;
  request.options.max_new_tokens = 16, request.has_max_tokens = true;  // OpenAI's default for this route
  MAKAR_TRY(const bool include_usage, read_stream(body, request));
  MAKAR_TRY(request.echo, flag_field(body, "echo"));
  MAKAR_TRY(const std::string suffix, text_field(body, "suffix"));
  if (!suffix.empty()) request.suffix = suffix;
  if (request.suffix && request.echo) return error_at("echo", "cannot be combined with suffix");
  MAKAR_TRY(request.options.logprobs, integer_field(body, "logprobs", 0, 20, -1));
  MAKAR_TRY(request.prompts, read_prompts(body));
  MAKAR_RETURN_IF_ERROR(read_format(body, request));
  MAKAR_RETURN_IF_ERROR(read_generation_options(body, request));
  if (static_cast<int64_t>(request.prompts.size()) * request.options.answers >
      static_cast<int64_t>(kMaxPrompts))
    return error_at("n", "{} prompts with {} answers each exceed the limit of {} answers",
                    request.prompts.size(), request.options.answers, kMaxPrompts);
  request.formatter =
      std::make_unique<CompletionFormatter>(context, include_usage, request.options.logprobs >= 0);
  return request;
}

}  // namespace makar
