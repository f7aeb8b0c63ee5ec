// Logit bias: adds a number to the logits of selected tokens. Also masks tokens up to a minimum length.
#include <limits>

#include "infer/samplers/step.h"

namespace makar {

void logit_bias(std::span<float> logits, const DrawContext& draw) {
  for (const auto& [id, bias] : draw.options.logit_bias)
    if (id >= 0 && static_cast<size_t>(id) < logits.size())
      logits[static_cast<size_t>(id)] += static_cast<float>(bias);
}

void mask_until_length(std::span<float> logits, const DrawContext& draw) {
  if (static_cast<int64_t>(draw.tokens.size()) >= draw.options.min_length) return;
  for (const int64_t id : draw.options.masked_until_min_length)
    if (id >= 0 && static_cast<size_t>(id) < logits.size())
      logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
}

}  // namespace makar
