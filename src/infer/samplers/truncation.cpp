// Truncations: which candidates may be drawn. Comparisons are those of transformers' logits warpers.
#include <algorithm>
#include <cmath>

#include "infer/samplers/step.h"

namespace makar {
namespace {

// Keeps what is at least as probable as `bound`; the best, and what ties with it, always.
void keep_probable(Candidates& c, double bound) {
  const auto p = c.probabilities();
  const float best = extremes(p).high;
  c.keep([&](size_t i) { return p[i] == best || static_cast<double>(p[i]) >= bound; });
}

}  // namespace

void top_k(Candidates& c, const DrawContext& draw) {
  const size_t k = static_cast<size_t>(draw.options.top_k);
  if (k >= c.size()) return;
  const auto x = c.logits();
  const float last = place_of_count(x, k).key;
  c.keep([&](size_t i) { return x[i] >= last; });
}

void temperature(Candidates& c, const DrawContext& draw) {
  c.divide(static_cast<float>(draw.options.temperature));
}

void top_p(Candidates& c, const DrawContext& draw) {
  const auto x = c.logits();
  const Place last = place_of_mass(x, c.probabilities(), draw.options.top_p);
  c.keep([&](size_t i) { return last.covers(x[i], i); });
}

void min_p(Candidates& c, const DrawContext& draw) {
  keep_probable(c, draw.options.min_p * static_cast<double>(extremes(c.probabilities()).high));
}

void typical(Candidates& c, const DrawContext& draw) {
  const double entropy = c.entropy();
  const auto p = c.probabilities();
  std::vector<float> nearness(c.size());  // how close its surprise is to the expected one
  for (size_t i = 0; i < c.size(); ++i)
    nearness[i] =
        p[i] > 0 ? -static_cast<float>(std::fabs(-std::log(static_cast<double>(p[i])) - entropy)) : -1e30f;
  const float last = place_of_mass(nearness, p, draw.options.typical_p).key;
  c.keep([&](size_t i) { return nearness[i] >= last; });
}

void epsilon(Candidates& c, const DrawContext& draw) { keep_probable(c, draw.options.epsilon_cutoff); }

void eta(Candidates& c, const DrawContext& draw) {
  const double cutoff = draw.options.eta_cutoff;
  keep_probable(c, std::min(cutoff, std::sqrt(cutoff) * std::exp(-c.entropy())));
}

}  // namespace makar
