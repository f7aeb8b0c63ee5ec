// Logit bias: a number added to the logits of chosen tokens.
#include "infer/samplers/step.h"

namespace makar {

void logit_bias(std::span<float> logits, const DrawContext& draw) {
  for (const auto& [id, bias] : draw.options.logit_bias)
    if (id >= 0 && static_cast<size_t>(id) < logits.size())
      logits[static_cast<size_t>(id)] += static_cast<float>(bias);
}

}  // namespace makar
