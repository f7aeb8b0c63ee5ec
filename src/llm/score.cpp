#include "llm/score.h"

#include <algorithm>

#include "infer/decoding.h"

namespace makar {
namespace {

Result<ScoredText> encode_pair(const LanguageModel& language, const std::string& prompt,
                               const std::string& completion, WorkBudget* work) {
  const ModelSpec& spec = language.spec();
  ScoredText out;
  MAKAR_TRY(out.source, language.encode(prompt, false, work));
  MAKAR_TRY(out.tokens, language.encode(completion, false, work));
  if (out.source.empty()) return error_at("prompt", "is empty; the encoder needs at least one token");
  std::vector<int64_t>& target = out.tokens;
  if (!spec.eos.empty() && (target.empty() || !std::count(spec.eos.begin(), spec.eos.end(), target.back())))
    target.push_back(spec.eos.front());
  if (target.empty()) return error_at("completion", "has no tokens to score");
  target.insert(target.begin(), spec.decoder_start);
  return out;
}

}  // namespace

Result<ScoredText> encode_scored(const LanguageModel& language, const std::string& prompt,
                                 const std::string& completion, WorkBudget* work) {
  if (language.spec().is_encoder_decoder()) return encode_pair(language, prompt, completion, work);
  ScoredText out;
  MAKAR_TRY(out.tokens, language.encode(prompt + completion, false, work));
  std::vector<int64_t>& all = out.tokens;
  if (!prompt.empty()) {
    MAKAR_TRY(const auto prompt_ids, language.encode(prompt, false, work));
    out.from = std::max<int64_t>(
        1, static_cast<int64_t>(
               std::mismatch(prompt_ids.begin(), prompt_ids.end(), all.begin(), all.end()).first -
               prompt_ids.begin()));
  }
  const int64_t bos = language.spec().bos;
  if (all.empty() || (out.from == 1 && all.front() != bos && bos >= 0 && prompt.empty()))
    all.insert(all.begin(), bos);
  if (static_cast<int64_t>(all.size()) <= out.from) return error_at("completion", "has no tokens to score");
  return out;
}

Status fit_scored(const Model& model, const ContextOptions& context, const ScoredText& text) {
  Decoding one_token;
  one_token.max_new_tokens = 1;
  ContextOptions strict = context;  // no scored token may be dropped
  if (context.policy == ContextPolicy::kTruncateLeft) strict.policy = ContextPolicy::kError;
  const bool encoder_decoder = model.spec().is_encoder_decoder();
  std::vector<int64_t> prompt = encoder_decoder ? text.source : text.tokens;
  MAKAR_RETURN_IF_ERROR(fit_request(model, strict, prompt, one_token));
  if (!encoder_decoder) return Done{};
  const int64_t vocab = model.spec().decoder->embedding.vocab, size = context_size(model.spec(), context);
  for (const int64_t id : text.tokens)
    if (id < 0 || id >= vocab)
      return error_at("completion", "token {} is outside of the vocabulary of {}", id, vocab);
  // The last token is scored and not read.
  const auto read_tokens = static_cast<int64_t>(text.tokens.size()) - 1;
  if (size > 0 && read_tokens > size)
    return error_of(Error::Kind::kLimit, "completion", "has {} tokens, the context holds {}; shorten it",
                    read_tokens, size);
  return Done{};
}

Result<ScoredText> plan_score(const LanguageModel& language, const ContextOptions& context,
                              const std::string& prompt, const std::string& completion, WorkBudget* work) {
  MAKAR_TRY(ScoredText out, encode_scored(language, prompt, completion, work));
  MAKAR_RETURN_IF_ERROR(fit_scored(language.model(), context, out));
  return out;
}

std::vector<ScoreWindow> score_windows(int64_t count, int64_t from, int64_t size, int64_t stride) {
  std::vector<ScoreWindow> out;
  if (size <= 0 || count <= size) return {{0, count, from}};
  for (int64_t begin = 0, scored = from; scored < count; begin += stride) {
    const int64_t end = std::min(begin + size, count);
    if (end <= scored) continue;  // the window holds only prompt tokens
    out.push_back({begin, end, std::max(scored, begin + 1)});
    scored = end;
  }
  return out;
}

}  // namespace makar
