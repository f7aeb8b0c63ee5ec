#include "eval/watermark.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"
#include "base/sha256.h"

namespace makar {
namespace {

uint64_t seed_of(const std::string& key) {
  const std::string sum = sha256_of("makar watermark 1:" + key);
  return std::stoull(sum.substr(0, 16), nullptr, 16);
}

}  // namespace

Watermark::Watermark(const WatermarkOptions& options)
    : seed_(seed_of(options.key)),
      share_(options.share),
      delta_(options.delta),
      green_below_(static_cast<uint32_t>(std::min(options.share * 4294967296.0, 4294967295.0))) {
  check(options.share > 0 && options.share < 1, "the share of green tokens is between 0 and 1");
}

bool Watermark::green(int64_t previous, int64_t token) const {
  const Rng rng(seed_, Purpose::kSample, static_cast<uint64_t>(previous));
  return rng.bits(static_cast<uint64_t>(token) / 4)[static_cast<size_t>(token) % 4] < green_below_;
}

Status WatermarkConstraint::mask(std::span<float> logits) {
  const auto delta = static_cast<float>(watermark_.delta());
  for (size_t token = 0; token < logits.size(); ++token)
    if (watermark_.green(previous_, static_cast<int64_t>(token))) logits[token] += delta;
  return Done{};
}

Status WatermarkConstraint::accept(int64_t token) {
  previous_ = token;
  return Done{};
}

double binomial_tail(int64_t trials, int64_t successes, double share) {
  if (successes <= 0) return 1;
  if (successes > trials) return 0;
  const auto n = static_cast<double>(trials);
  const auto log_term = [&](int64_t k) {
    const auto at = static_cast<double>(k);
    return std::lgamma(n + 1) - std::lgamma(at + 1) - std::lgamma(n - at + 1) + at * std::log(share) +
           (n - at) * std::log1p(-share);
  };
  // Terms relative to the largest one, so that tiny probabilities do not vanish.
  const auto mode = static_cast<int64_t>((n + 1) * share);
  const double largest = log_term(std::clamp(mode, successes, trials));
  double sum = 0;
  for (int64_t k = trials; k >= successes; --k) sum += std::exp(log_term(k) - largest);
  return std::min(1.0, sum * std::exp(largest));
}

WatermarkTest test_watermark(const Watermark& watermark, const std::vector<int64_t>& tokens) {
  WatermarkTest out;
  std::set<std::pair<int64_t, int64_t>> seen;  // repeated pairs are not independent
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (!seen.emplace(tokens[i - 1], tokens[i]).second) continue;
    ++out.tokens;
    if (watermark.green(tokens[i - 1], tokens[i])) ++out.green;
  }
  if (out.tokens == 0) return out;
  const auto n = static_cast<double>(out.tokens);
  out.p = binomial_tail(out.tokens, out.green, watermark.share());
  out.z = (static_cast<double>(out.green) - n * watermark.share()) /
          std::sqrt(n * watermark.share() * (1 - watermark.share()));
  return out;
}

}  // namespace makar
