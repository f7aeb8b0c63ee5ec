// Log-likelihoods under a model: many texts in one batch, each of any length. Continuations of the same
// context share its computation; contexts with a common prefix (few-shot examples) share cache pages.
#pragma once
#include <functional>
#include <span>

#include "infer/engine.h"
#include "infer/logprobs.h"
#include "llm/score.h"

namespace makar {

struct Loglikelihood {
  double logprob = 0;     // sum over the scored tokens
  int64_t tokens = 0;     // scored tokens
  int64_t windows = 0;    // forward windows; more than 1 for a text longer than the context
  bool is_greedy = true;  // every scored token was the most probable one
  void add(const Logprobs& token);
  double perplexity() const;
};

struct LoglikelihoodOptions {
  int64_t stride = 0;  // tokens between the windows of a long text; 0: half of the context
  int64_t top = 0;     // alternatives per token
  // Called for each scored token, in order within a text; return false to stop.
  std::function<bool(size_t text, int64_t token, const Logprobs& score)> on_token = {};
};

// One result per text, in order. The value of a text depends neither on the other texts nor on what is
// shared. If on_token returns false, the results cover the tokens scored so far.
std::vector<Result<Loglikelihood>> loglikelihood(Engine& engine, const LanguageModel& language,
                                                 std::span<const ScoredText> texts,
                                                 const LoglikelihoodOptions& options = {});
// The same where some texts could not be encoded: their errors are their results.
std::vector<Result<Loglikelihood>> loglikelihood(Engine& engine, const LanguageModel& language,
                                                 std::span<const Result<ScoredText>> texts,
                                                 const LoglikelihoodOptions& options = {});

// The continuation given the context; without a context, the whole text (rolling log-likelihood).
struct ContextAndContinuation {
  std::string context, continuation;
};
std::vector<Result<Loglikelihood>> loglikelihood(Engine& engine, const LanguageModel& language,
                                                 std::span<const ContextAndContinuation> texts,
                                                 const LoglikelihoodOptions& options = {});

}  // namespace makar
