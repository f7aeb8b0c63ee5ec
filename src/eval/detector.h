// Whether a model wrote a text, from its log-probabilities: log-rank (Gehrmann et al., 2019; Su et al., 2023)
// and conditional curvature (Fast-DetectGPT; Bao et al., 2024).
#pragma once
#include "llm/loglikelihood.h"

namespace makar {

struct DetectorScores {
  int64_t tokens = 0;
  double log_rank = 0;  // mean of ln(1 + rank); low for text of the model
  double logprob = 0;   // mean log-probability
  // (log p(text) - mean) / standard deviation, with the mean and deviation of log p over tokens sampled from
  // the model; high for text of the model. Both are computed from the kDetectorAlternatives most probable
  // tokens, renormalised.
  double curvature = 0;
};
constexpr int64_t kDetectorAlternatives = 256;

std::vector<Result<DetectorScores>> detector_scores(Engine& engine, const LanguageModel& language,
                                                    std::span<const std::string> texts);

// The threshold that at most `rate` of the scores of human texts exceed; scores above it are flagged.
double threshold_for(std::vector<double> human, double rate);
// How many human texts are flagged when each half is tested with the threshold of the other half: an estimate
// of the false positives among new texts.
int64_t held_out_positives(const std::vector<double>& human, double rate);

}  // namespace makar
