#include "llm/score.h"

#include <algorithm>

#include "infer/decoding.h"

namespace makar {

Result<ScoredText> encode_scored(const LanguageModel& language, const std::string& prompt,
                                 const std::string& completion, WorkBudget* work) {
  ScoredText out;
  MAKAR_TRY(out.tokens, language.encode(prompt + completion, false, work));
  std::vector<int64_t>& all = out.tokens;
  if (!prompt.empty()) {
    MAKAR_TRY(const auto before, language.encode(prompt, false, work));
    out.from = std::max<int64_t>(
        1, static_cast<int64_t>(std::mismatch(before.begin(), before.end(), all.begin(), all.end()).first -
                                before.begin()));
  }
  const int64_t bos = language.spec().bos;
  if (all.empty() || (out.from == 1 && all.front() != bos && bos >= 0 && prompt.empty()))
    all.insert(all.begin(), bos);
  if (static_cast<int64_t>(all.size()) <= out.from) return error_at("completion", "has no tokens to score");
  return out;
}

Result<ScoredText> plan_score(const LanguageModel& language, const ContextOptions& context,
                              const std::string& prompt, const std::string& completion, WorkBudget* work) {
  MAKAR_TRY(ScoredText out, encode_scored(language, prompt, completion, work));
  Decoding one;
  one.max_new_tokens = 1;
  MAKAR_CHECK_OK(fit_request(language.model(), context, out.tokens, one));
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
