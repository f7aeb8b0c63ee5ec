// Penalties on tokens seen before: repetition (once per distinct token, like transformers), presence (once)
// and frequency (per occurrence), as in the OpenAI API.
#include <algorithm>

#include "infer/samplers/step.h"

namespace makar {
namespace {

// The tokens a penalty applies to, sorted, without ids outside the vocabulary.
std::vector<int64_t> penalised_tokens(std::span<const int64_t> tokens, size_t vocab, int64_t last_n) {
  if (last_n >= 0 && tokens.size() > static_cast<size_t>(last_n))
    tokens = tokens.last(static_cast<size_t>(last_n));
  std::vector<int64_t> out;
  out.reserve(tokens.size());
  for (const int64_t id : tokens)
    if (id >= 0 && static_cast<size_t>(id) < vocab) out.push_back(id);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

void repetition_penalty(std::span<float> logits, const DrawContext& draw) {
  const float penalty = static_cast<float>(draw.options.repetition_penalty);
  std::vector<int64_t> ids = penalised_tokens(draw.tokens, logits.size(), draw.options.repeat_last_n);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int64_t id : ids) {
    float& x = logits[static_cast<size_t>(id)];
    x = x < 0 ? x * penalty : x / penalty;
  }
}

void presence_and_frequency(std::span<float> logits, const DrawContext& draw) {
  const SamplerOptions& o = draw.options;
  const size_t prompt =
      std::min(draw.tokens.size(), static_cast<size_t>(std::max<int64_t>(o.prompt_tokens, 0)));
  const std::vector<int64_t> ids =
      penalised_tokens(draw.tokens.subspan(prompt), logits.size(), o.repeat_last_n);
  for (size_t i = 0; i < ids.size();) {
    size_t end = i;
    while (end < ids.size() && ids[end] == ids[i]) ++end;
    logits[static_cast<size_t>(ids[i])] -=
        static_cast<float>(o.presence_penalty + o.frequency_penalty * static_cast<double>(end - i));
    i = end;
  }
}

}  // namespace makar
