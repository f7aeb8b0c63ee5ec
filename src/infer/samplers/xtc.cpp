// XTC ("exclude top choices"): with a given probability, removes all tokens above the threshold except the
// least probable of them, for more varied text when there are several good choices.
#include "base/rng.h"
#include "infer/samplers/step.h"

namespace makar {

void xtc(Candidates& c, const DrawContext& draw) {
  const SamplerOptions& o = draw.options;
  if (Rng(o.seed, Purpose::kSample, 1).uniform_double(draw.index) >= o.xtc_probability) return;
  const auto w = c.weights();
  const float threshold = static_cast<float>(o.xtc_threshold * c.total());
  const size_t none = c.size();
  size_t above = 0, min = none;
  for (size_t i = 0; i < c.size(); ++i) {
    if (w[i] < threshold) continue;
    ++above;
    if (min == none || w[i] < w[min]) min = i;
  }
  if (above >= 2) c.keep([&](size_t i) { return w[i] < threshold || i == min; });
}

}  // namespace makar
