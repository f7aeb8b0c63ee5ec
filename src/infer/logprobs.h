// Log-probabilities of tokens under logits as the model gave them. A value has the bits of ops::log_softmax
// at that place, which are those of the training loss.
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
  float chosen = 0;               // of the token asked for
  int64_t rank = 0;               // tokens that are more probable, or as probable with a lower id
  std::vector<TokenLogprob> top;  // the most probable, best first; ties by id
};

// Errors: logits that are NaN or +infinity, a token outside of the vocabulary.
Result<Logprobs> logprobs(std::span<const float> logits, int64_t token, int64_t top);
// -sum p ln p, in nats.
Result<double> entropy(std::span<const float> logits);

}  // namespace makar
