#include "llm/fill.h"

#include "infer/encode_job.h"
#include "ops/shape.h"

namespace makar {

std::string mask_token(const LanguageModel& language) {
  for (const char* token : {"[MASK]", "<mask>"})
    if (language.tokenizer().id(token)) return token;
  return "";
}

Result<std::vector<MaskPrediction>> fill(Engine& engine, const LanguageModel& language,
                                         const std::string& text, int64_t top) {
  const ModelSpec& spec = language.spec();
  if (spec.head.kind != HeadKind::kMaskedLm && spec.head.kind != HeadKind::kPretraining)
    return error_of(Error::Kind::kUnsupported, "fill",
                    "a {} has no masked-word head; use a ...ForMaskedLM model", spec.architecture);
  const std::string mask = mask_token(language);
  if (mask.empty()) return error_at("tokenizer", "has no [MASK] or <mask> token");
  MAKAR_TRY(const auto ids, language.encode(text, true));
  if (spec.max_positions > 0 && static_cast<int64_t>(ids.size()) > spec.max_positions)
    return error_of(Error::Kind::kLimit, "fill",
                    "{} tokens are more than the model's {} positions; shorten the text", ids.size(),
                    spec.max_positions);
  const int64_t id = *language.tokenizer().id(mask);
  std::vector<MaskPrediction> predictions;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == id)
      predictions.push_back({static_cast<int64_t>(i), {}}), rows.push_back(static_cast<int64_t>(i));
  if (predictions.empty()) return error_at("fill", "the text has no {} to fill", mask);
  const auto job = std::make_shared<EncodeJob>(ids);
  engine.submit(job);
  while (!job->done() && engine.step()) {
  }
  if (job->error) return *job->error;
  Context ctx{engine.device()};
  const Tensor states = job->states().to(engine.device().memory());
  const Tensor logits = language.model().lm_logits(ctx, ops::gather_rows(ctx, states, rows)).host();
  const auto vocab = static_cast<size_t>(logits.dim(1));
  for (size_t i = 0; i < predictions.size(); ++i) {
    MAKAR_TRY(auto scores, logprobs(logits.span().subspan(i * vocab, vocab), 0, top));
    predictions[i].top = std::move(scores.top);
  }
  return predictions;
}

}  // namespace makar
