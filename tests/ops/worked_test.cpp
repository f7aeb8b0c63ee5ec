// Examples from the literature with results that can be computed by hand: attention weights, positions and
// losses.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_device.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/softmax.h"

namespace makar {
namespace {

class WorkedExamples : public testing::Test {
 protected:
  CpuDevice device_{1};
};

// Raw scores 112 and 96 of width 64 are 14 and 12 after scaling; their softmax is .88 and .12.
TEST_F(WorkedExamples, ScaledDotProductMatches) {
  Context ctx{device_};
  Tensor q = Tensor::zeros({2, 64}), k = Tensor::zeros({2, 64});
  q.f32()[64] = 8;  // the second token: its products with the keys are 112 and 96
  k.f32()[0] = 14, k.f32()[64] = 12;
  ops::AttentionOptions o;
  o.head_dim = 64, o.scale = 1 / std::sqrt(64.0f);
  std::vector<Tensor> weights;
  ops::attention(ctx, q, k, k, {{0, 2, 0, 2, 0}}, o, {}, &weights);
  EXPECT_NEAR(weights[0].f32()[2], 1 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_NEAR(weights[0].f32()[2], 0.88, 0.005);
  EXPECT_NEAR(weights[0].f32()[3], 0.12, 0.005);
}

// The mask is minus infinity before the softmax: every row sums to 1, and later keys have no influence.
TEST_F(WorkedExamples, CausalMaskMatches) {
  const std::vector<std::vector<float>> rows = {
      {1}, {0.378f, 0.622f}, {0.258f, 0.316f, 0.426f}, {0.214f, 0.262f, 0.262f, 0.262f}};
  Context ctx{device_};
  Tensor q = Tensor::zeros({4, 4}),
         k = Tensor::full({4, 4}, 9.0f);  // masked keys would have the highest weights
  for (int64_t i = 0; i < 4; ++i) {
    q.f32()[i * 4 + i] = 1;  // the product of query i and key j is k[j][i]
    for (int64_t j = 0; j <= i; ++j)
      k.f32()[j * 4 + i] = std::log(rows[static_cast<size_t>(i)][static_cast<size_t>(j)]);
  }
  ops::AttentionOptions o;
  o.head_dim = 4;
  std::vector<Tensor> weights;
  ops::attention(ctx, q, k, k, {{0, 4, 0, 4, 0}}, o, {}, &weights);
  for (int64_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 4; ++j) {
      const float weight = weights[0].f32()[i * 4 + j];
      sum += static_cast<double>(weight);
      EXPECT_NEAR(weight, j <= i ? rows[static_cast<size_t>(i)][static_cast<size_t>(j)] : 0, 1e-6);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST_F(WorkedExamples, SinusoidalPositionsMatch) {
  // Base 100 and width 4 have the frequencies 1 and 0.1, as the first two of base 10000 and width 8. The
  // table has sines in the first half and cosines in the second; the example has them interleaved.
  const Tensor table = ops::sinusoidal_positions(4, 8);
  const auto rows = table.f32();
  const auto row = [&](int64_t position) {
    const auto at = static_cast<size_t>(position) * 8;
    return std::vector<float>{rows[at], rows[at + 4], rows[at + 1], rows[at + 5]};
  };
  const std::vector<std::vector<float>> expected = {
      {0, 1, 0, 1}, {.84f, .54f, .10f, 1.0f}, {}, {.14f, -.99f, .30f, .96f}};
  for (const int64_t position : {0, 1, 3})
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(row(position)[i], expected[static_cast<size_t>(position)][i], 0.005f)
          << position << " " << i;
}

// The loss of a true class with probability .95 is .051.
TEST_F(WorkedExamples, CrossEntropyMatches) {
  Context ctx{device_};
  Tensor x = Tensor::zeros({1, 2});
  x.f32()[0] = std::log(0.95f), x.f32()[1] = std::log(0.05f);
  const int64_t target[] = {0};
  EXPECT_NEAR(ops::cross_entropy(ctx, x, target).f32()[0], -std::log(0.95), 1e-6);
  EXPECT_NEAR(ops::cross_entropy(ctx, x, target).f32()[0], 0.051, 0.0005);
}

}  // namespace
}  // namespace makar
