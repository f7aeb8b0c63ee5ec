// Mirostat (Basu et al., 2021): keeps the surprisal of the tokens near tau bits by adjusting a bound mu.
// Version 1 estimates the exponent of Zipf's law from the 100 best tokens and derives a top-k; version 2
// removes every token whose surprisal exceeds mu.
#include <algorithm>
#include <cmath>

#include "infer/samplers/step.h"

namespace makar {
namespace {

size_t zipf_k(Candidates& c, double mu) {
  constexpr size_t kTopTokens = 100;
  const auto w = c.weights();
  const std::vector<size_t> top = largest(c.logits(), kTopTokens);
  double product = 0, square = 0;
  for (size_t i = 0; i + 1 < top.size() && w[top[i + 1]] > 0; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    product += t * std::log(static_cast<double>(w[top[i]]) / w[top[i + 1]]);
    square += t * t;
  }
  const double s = product / square, e = s - 1;
  const double k = std::pow(e * std::exp2(mu) / (1 - std::pow(static_cast<double>(c.vocab()), -e)), 1 / s);
  // k is NaN if all candidates are equal or only one has a weight above 0: do not truncate then.
  return k < static_cast<double>(c.size()) ? std::max<size_t>(static_cast<size_t>(std::max(k, 1.0)), 1)
                                           : c.size();
}

}  // namespace

void mirostat(Candidates& c, const DrawContext& draw) {
  if (draw.options.mirostat == 1) {
    const size_t k = zipf_k(c, draw.mu);
    if (k >= c.size()) return;
    const auto x = c.logits();
    const Rank last = rank_of_count(x, c.extremes(), k);
    return c.keep([&](size_t i) { return last.covers(x[i], i); });
  }
  const auto w = c.weights();
  const float min = static_cast<float>(std::exp2(-draw.mu) * c.total());
  c.keep([&](size_t i) { return w[i] >= min; });
}

double mirostat_update(const SamplerOptions& options, double mu, double p) {
  return mu - options.mirostat_eta * (-std::log2(std::max(p, 1e-30)) - options.mirostat_tau);
}

}  // namespace makar
