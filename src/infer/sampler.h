// Choosing the next token from logits: greedy, or temperature, top-k and top-p in that order.
#pragma once
#include <cstdint>
#include <span>

namespace makar {

struct SamplerOptions {
  float temperature = 0.0f;  // 0: the most probable token
  int64_t top_k = 0;         // 0: all
  float top_p = 1.0f;
  uint64_t seed = 0;
};

// `index` numbers the draw: the same (options, logits, index) give the same token, whatever else runs.
int64_t sample(std::span<const float> logits, const SamplerOptions& options, uint64_t index);

}  // namespace makar
