// Which tokens are scored when a completion follows a prompt, and the windows of a text longer than the
// context.
#pragma once
#include <functional>

#include "infer/engine.h"
#include "infer/logprobs.h"
#include "llm/language_model.h"

namespace makar {

struct ScoredText {
  std::vector<int64_t> tokens;
  int64_t from = 1;  // the first scored token
};

// Encodes prompt + completion; the scored tokens start where this encoding differs from that of the prompt
// alone. Fails if there is nothing to score.
Result<ScoredText> encode_scored(const LanguageModel& language, const std::string& prompt,
                                 const std::string& completion, WorkBudget* work = nullptr);
// encode_scored() for a text that must fit the context. Fails if it is longer.
Result<ScoredText> plan_score(const LanguageModel& language, const ContextOptions& context,
                              const std::string& prompt, const std::string& completion,
                              WorkBudget* work = nullptr);

// Tokens [begin, end) are read; tokens from `from` on are scored.
struct ScoreWindow {
  int64_t begin = 0, end = 0, from = 0;
  bool operator==(const ScoreWindow&) const = default;
};
// Overlapping windows of at most `size` tokens that score each of tokens [from, count) exactly once, with at
// least size - stride tokens of context if available. size 0: one window.
std::vector<ScoreWindow> score_windows(int64_t count, int64_t from, int64_t size, int64_t stride);

struct ScoreOptions {
  int64_t stride = 0;  // tokens between windows; 0: half of the context
  int64_t top = 0;     // alternatives per token
  // Called for each scored token, in order; return false to stop.
  std::function<bool(int64_t token, const Logprobs& score)> on_token;
};
struct ScoreTotals {
  int64_t tokens = 0, windows = 0;
  double logprob = 0;
  bool greedy = true;  // every token was the most probable one
};
// Scores a text of any length, in windows if it exceeds the context (unless the policy is sinks).
Result<ScoreTotals> score_text(Engine& engine, const LanguageModel& language, const ScoredText& text,
                               const ScoreOptions& options);

}  // namespace makar
