#include "llm/score.h"

#include <algorithm>

#include "infer/decoding.h"

namespace makar {

Result<ScoredText> plan_score(const LanguageModel& language, const ContextOptions& context,
                              const std::string& prompt, const std::string& completion) {
  ScoredText out;
  MAKAR_TRY(out.tokens, language.encode(prompt + completion));
  std::vector<int64_t>& all = out.tokens;
  if (!prompt.empty()) {
    MAKAR_TRY(const auto before, language.encode(prompt));
    out.from = std::max<int64_t>(
        1, static_cast<int64_t>(std::mismatch(before.begin(), before.end(), all.begin(), all.end()).first -
                                before.begin()));
  }
  const int64_t bos = language.spec().bos;
  if (all.empty() || (out.from == 1 && all.front() != bos && bos >= 0 && prompt.empty()))
    all.insert(all.begin(), bos);
  if (static_cast<int64_t>(all.size()) <= out.from) return error_at("completion", "has no tokens to score");
  Decoding one;
  one.max_new_tokens = 1;
  MAKAR_CHECK_OK(fit_request(language.model(), context, all, one));
  return out;
}

}  // namespace makar
