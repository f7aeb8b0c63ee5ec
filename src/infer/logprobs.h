// Log-probabilities of tokens from unmodified logits of the model. A value has the same bits as
// ops::log_softmax at that index, and so as the training loss.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"

namespace makar {

struct TokenLogprob {
  int64_t id = 0;
  float logprob = 0;
};

struct Logprobs {
  float chosen = 0;               // of the given token
  int64_t rank = 0;               // number of tokens that are more probable, or as probable with a lower id
  std::vector<TokenLogprob> top;  // the most probable, best first; ties by id
};

// Fails if a logit is NaN or +infinity, if all are -infinity, or if the token is outside the vocabulary.
Result<Logprobs> logprobs(std::span<const float> logits, int64_t token, int64_t top);
// -sum p ln p, in nats.
Result<double> entropy(std::span<const float> logits);

}  // namespace makar
