#include "llm/score.h"

#include <algorithm>

#include "infer/decoding.h"
#include "infer/score_job.h"

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

Result<ScoreTotals> score_text(Engine& engine, const LanguageModel& language, const ScoredText& text,
                               const ScoreOptions& options) {
  const ContextOptions& context = engine.options().context;
  const int64_t size = context.policy == ContextPolicy::kSinks ? 0 : context_size(language.spec(), context);
  const int64_t stride = options.stride > 0 ? options.stride : std::max<int64_t>(1, size / 2);
  const auto count = static_cast<int64_t>(text.tokens.size());
  if (size > 0 && count > size && (size < 2 || stride >= size))
    return error_at("stride", "must be less than the context of {} tokens, got {}", size, stride);
  ScoreTotals out;
  for (const ScoreWindow& window : score_windows(count, text.from, size, stride)) {
    std::vector<int64_t> tokens(text.tokens.begin() + window.begin, text.tokens.begin() + window.end);
    Decoding one;
    one.max_new_tokens = 1;
    MAKAR_CHECK_OK(fit_request(language.model(), context, tokens, one));
    const auto job = std::make_shared<ScoreJob>(std::move(tokens), window.from - window.begin, options.top);
    engine.submit(job);
    size_t reported = 0;
    bool more = true;
    do {
      more = engine.step();
      for (; reported < job->scores().size(); ++reported) {
        const Logprobs& score = job->scores()[reported];
        out.logprob += static_cast<double>(score.chosen);
        out.greedy = out.greedy && score.rank == 0;
        ++out.tokens;
        const auto at = static_cast<size_t>(window.from) + reported;
        if (options.on_token && !options.on_token(text.tokens[at], score)) {
          engine.cancel(*job);
          return out;
        }
      }
    } while (more && !job->done());
    if (job->error) return *job->error;
    ++out.windows;
  }
  return out;
}

}  // namespace makar
