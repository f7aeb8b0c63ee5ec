// Which tokens are scored when a completion follows a prompt, and the windows of a text longer than the
// context. loglikelihood.h scores them.
#pragma once
#include "infer/context.h"
#include "llm/language_model.h"

namespace makar {

struct ScoredText {
  std::vector<int64_t> tokens;
  int64_t from = 1;                  // the first scored token
  std::vector<int64_t> source = {};  // what the encoder of an encoder-decoder reads
};

// Encodes prompt + completion; the scored tokens start where this encoding differs from that of the prompt
// alone. Fails if there is nothing to score. The encoder of an encoder-decoder reads the prompt; the
// completion with its end token follows the decoder's start token, as in training.
Result<ScoredText> encode_scored(const LanguageModel& language, const std::string& prompt,
                                 const std::string& completion, WorkBudget* work = nullptr);
// Whether the text fits the context and its ids are in the vocabulary.
Status fit_scored(const Model& model, const ContextOptions& context, const ScoredText& text);
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

}  // namespace makar
