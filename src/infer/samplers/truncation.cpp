// Truncations: which candidates may be drawn. Comparisons are those of transformers' logits warpers.
#include <algorithm>
#include <cmath>

#include "infer/samplers/step.h"
#include "kernels/sampling.h"

namespace makar {
namespace {

// Keeps candidates of probability >= `bound`; always keeps the best and its ties (weight 1).
void keep_probable(Candidates& c, double bound) {
  const float min = static_cast<float>(std::min(bound * c.total(), 1.0));
  const auto w = c.weights();
  c.keep([&](size_t i) { return w[i] >= min; });
}

}  // namespace

void top_k(Candidates& c, const DrawContext& draw) {
  const size_t k = static_cast<size_t>(draw.options.top_k);
  if (k >= c.size()) return;
  const auto x = c.logits();
  const float last = rank_of_count(x, c.extremes(), k).key;
  c.keep([&](size_t i) { return x[i] >= last; });
}

void temperature(Candidates& c, const DrawContext& draw) {
  c.divide(static_cast<float>(draw.options.temperature));
}

void top_p(Candidates& c, const DrawContext& draw) {
  const double share = draw.options.top_p;
  const int64_t units = kernels::units_for(share, c.units());
  // All tokens below this weight together have less mass than top-p leaves out, so none of them is kept.
  const float min_weight =
      static_cast<float>((1 - share) * c.total() / static_cast<double>(c.size()) * 0.999);
  const auto w = c.weights();
  c.keep([&](size_t i) { return w[i] >= min_weight; });
  const auto x = c.logits();
  const Rank last = rank_of_mass(x, c.extremes(), c.weights(), units);
  c.keep([&](size_t i) { return last.covers(x[i], i); });
}

void min_p(Candidates& c, const DrawContext& draw) {
  const float min = static_cast<float>(draw.options.min_p);  // the best token has the weight 1
  const auto w = c.weights();
  c.keep([&](size_t i) { return w[i] >= min; });
}

void typical(Candidates& c, const DrawContext& draw) {
  // The surprisal of a token is log_total - x nats.
  const float typical_logit = static_cast<float>(c.log_total() - c.entropy());
  const auto x = c.logits();
  std::vector<float> nearness(c.size());  // minus the distance of the surprisal from the entropy
  for (size_t i = 0; i < c.size(); ++i) nearness[i] = -std::fabs(typical_logit - x[i]);
  const float last = rank_of_mass(nearness, extremes(nearness), c.weights(),
                                  kernels::units_for(draw.options.typical_p, c.units()))
                         .key;
  c.keep([&](size_t i) { return nearness[i] >= last; });
}

void epsilon(Candidates& c, const DrawContext& draw) { keep_probable(c, draw.options.epsilon_cutoff); }

void eta(Candidates& c, const DrawContext& draw) {
  const double cutoff = draw.options.eta_cutoff;
  keep_probable(c, std::min(cutoff, std::sqrt(cutoff) * std::exp(-c.entropy())));
}

}  // namespace makar
