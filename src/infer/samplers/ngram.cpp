// No-repeat n-gram: masks every token that would complete an n-gram that occurred before.
#include <algorithm>
#include <limits>

#include "infer/samplers/step.h"

namespace makar {

void no_repeat_ngram(std::span<float> logits, const DrawContext& draw) {
  const size_t n = static_cast<size_t>(draw.options.no_repeat_ngram_size);
  const std::span<const int64_t> tokens = draw.tokens;
  if (tokens.size() + 1 < n) return;
  const auto tail = tokens.last(n - 1);
  for (size_t at = 0; at + n <= tokens.size(); ++at) {
    const int64_t banned = tokens[at + n - 1];
    if (banned >= 0 && static_cast<size_t>(banned) < logits.size() &&
        std::equal(tail.begin(), tail.end(), tokens.begin() + static_cast<int64_t>(at)))
      logits[static_cast<size_t>(banned)] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace makar
