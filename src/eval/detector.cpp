#include "eval/detector.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};
// Moments of log p under p, renormalised over the `top` tokens.
Moments moments_of(const std::vector<TokenLogprob>& top) {
  double mass = 0;
  Moments out;
  for (const TokenLogprob& one : top) mass += std::exp(static_cast<double>(one.logprob));
  if (mass <= 0) return out;
  double square = 0;
  for (const TokenLogprob& one : top) {
    const double log = one.logprob, p = std::exp(log) / mass;
    if (p == 0) continue;
    out.mean += p * log, square += p * log * log;
  }
  out.variance = std::max(0.0, square - out.mean * out.mean);
  return out;
}

}  // namespace

std::vector<Result<DetectorScores>> detector_scores(Engine& engine, const LanguageModel& language,
                                                    std::span<const std::string> texts) {
  std::vector<DetectorScores> sums(texts.size());
  std::vector<double> means(texts.size()), variances(texts.size());
  std::vector<ContextAndContinuation> requests;
  for (const std::string& text : texts) requests.push_back({"", text});
  LoglikelihoodOptions options;
  options.top = kDetectorAlternatives;
  options.on_token = [&](size_t text, int64_t, const Logprobs& score) {
    DetectorScores& sum = sums[text];
    const Moments moments = moments_of(score.top);
    ++sum.tokens;
    sum.log_rank += std::log1p(static_cast<double>(score.rank));
    sum.logprob += static_cast<double>(score.chosen);
    means[text] += moments.mean, variances[text] += moments.variance;
    return true;
  };
  const auto scored = loglikelihood(engine, language, requests, options);
  std::vector<Result<DetectorScores>> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!scored[i].ok()) {
      out.emplace_back(scored[i].error());
      continue;
    }
    DetectorScores& sum = sums[i];
    const auto count = static_cast<double>(std::max<int64_t>(1, sum.tokens));
    sum.curvature = variances[i] > 0 ? (sum.logprob - means[i]) / std::sqrt(variances[i]) : 0;
    sum.log_rank /= count, sum.logprob /= count;
    out.emplace_back(sum);
  }
  return out;
}

double threshold_for(std::vector<double> human, double rate) {
  check(!human.empty(), "a threshold needs human texts");
  std::sort(human.begin(), human.end(), std::greater<>());
  const auto allowed = static_cast<size_t>(rate * static_cast<double>(human.size()) + 1e-9);
  return human[std::min(allowed, human.size() - 1)];
}

int64_t held_out_positives(const std::vector<double>& human, double rate) {
  std::vector<double> halves[2];
  for (size_t i = 0; i < human.size(); ++i) halves[i % 2].push_back(human[i]);
  int64_t flagged = 0;
  for (const auto& [from, on] : {std::pair(0, 1), std::pair(1, 0)}) {
    if (halves[from].empty()) continue;
    const double threshold = threshold_for(halves[from], rate);
    flagged += std::count_if(halves[on].begin(), halves[on].end(), [&](double s) { return s > threshold; });
  }
  return flagged;
}

}  // namespace makar
