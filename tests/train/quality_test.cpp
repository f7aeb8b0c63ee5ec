// Quality heads: the loss by hand, the order of candidates.
#include "train/quality.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_device.h"

namespace makar {
namespace {

TEST(Quality, LossIgnoresMissingRatings) {
  CpuDevice device(1);
  Context ctx{device};
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 30.0f};
  const std::vector<float> ratings = {1.0f, RatedQualities::kUnrated, 0.25f, 0.0f};
  const auto entropy = [](double x, double r) {
    const double p = 1 / (1 + std::exp(-x));
    return -r * std::log(p) - (1 - r) * std::log1p(-p);
  };
  const double expected = (entropy(0.5, 1) + entropy(2, 0.25) + 30) / 3;
  const Tensor loss = quality_loss(ctx, Tensor::from({2, 2}, std::span<const float>(logits)), ratings).host();
  EXPECT_NEAR(loss.f32()[0], expected, 1e-5 * expected);
  // Nothing is rated: no loss.
  const std::vector<float> none(4, RatedQualities::kUnrated);
  EXPECT_EQ(quality_loss(ctx, Tensor::from({2, 2}, std::span<const float>(logits)), none).host().f32()[0], 0);
}

TEST(Quality, CandidatesAreRankedAsInLamda) {
  const std::vector<std::string>& names = lamda_qualities();
  const auto score = [&](std::vector<float> p) { return quality_score(names, p); };
  EXPECT_NEAR(score({0.5f, 0.25f, 0.125f, 0.75f, 1.0f}), 3 * 0.5 + 0.25 + 0.125 + 1, 1e-6);
  // Sensible weighs three times as much as the others.
  EXPECT_GT(score({0.6f, 0, 0, 1, 0}), score({0.3f, 0.8f, 0, 1, 0}));
  // The best unsafe answer ranks below the worst safe one.
  EXPECT_LT(score({1, 1, 1, 0.49f, 1}), score({0, 0, 0, 0.5f, 0}));
}

}  // namespace
}  // namespace makar
