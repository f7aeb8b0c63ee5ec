// Drawing tokens on a device: the tokens of the host's sampler, for logits of every kind, on the CPU, the
// fence device and a GPU if there is one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "infer/sampler.h"
#include "kernels/device.h"
#include "on_each_device.h"
#include "ops/next_rows.h"
#include "real_gpu.h"

namespace makar {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SampleRowsTest : public test::OnEachDevice {
 protected:
  // One draw per sampler from one row of logits each.
  std::vector<int64_t> draw(const std::vector<std::vector<float>>& logits,
                            const std::vector<kernels::RowSampler>& samplers) {
    const auto rows = static_cast<int64_t>(logits.size()), cols = static_cast<int64_t>(logits[0].size());
    std::vector<float> all;
    for (const auto& row : logits) all.insert(all.end(), row.begin(), row.end());
    std::vector<int64_t> fields(samplers.size() * 5);
    std::memcpy(fields.data(), samplers.data(), fields.size() * sizeof(int64_t));
    Context ctx{*device_};
    const Tensor x = Tensor::from({rows, cols}, std::span<const float>(all)).to(device_->memory()),
                 how = Tensor::from({rows, 5}, std::span<const int64_t>(fields)).to(device_->memory()),
                 chosen = Tensor::empty({rows}, DType::kI64, device_->memory());
    ops::sample_rows(ctx, x, how, chosen);
    const Tensor tokens = chosen.host(), after = how.host();
    for (int64_t r = 0; r < rows; ++r)
      EXPECT_EQ(after.i64()[r * 5 + 4], fields[static_cast<size_t>(r * 5 + 4)] + 1)
          << "the index of the next draw";
    return {tokens.i64(), tokens.i64() + rows};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SampleRowsTest, testing::Values("cpu", "fence", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

std::vector<SamplerOptions> chains() {
  std::vector<SamplerOptions> out;
  const auto add = [&](double temperature, int64_t top_k, double top_p, double min_p) {
    SamplerOptions o;
    o.temperature = temperature, o.top_k = top_k, o.top_p = top_p, o.min_p = min_p, o.seed = 17 + out.size();
    out.push_back(o);
  };
  add(0, 0, 1, 0), add(1, 0, 1, 0), add(0.7, 0, 1, 0), add(1, 40, 1, 0), add(1, 1, 1, 0),
      add(0.8, 40, 0.95, 0.05);
  add(1, 0, 0.9, 0), add(1.5, 0, 0.5, 0), add(1, 0, 1, 0.1), add(0.01, 0, 0.999, 0), add(3, 5, 0.3, 0.3),
      add(1, 100000, 0.7, 1);
  add(1, 0, 1e-9, 0), add(1e-30, 3, 1, 0), add(1e-46, 0, 1, 0);
  return out;
}

TEST_P(SampleRowsTest, DrawsTheTokensOfTheHostsSampler) {
  enum { kNormal, kWide, kEqual, kSteps, kMasked, kOne, kLastShape };
  std::vector<size_t> widths = {1, 5, 300, 1024, 5000};
  if (device_->name() != "cuda" || test::is_real_gpu(*device_)) widths.push_back(33333);
  for (const size_t cols : widths)
    for (int shape = 0; shape < kLastShape; ++shape) {
      const Rng rng(cols, Purpose::kSynthetic, static_cast<uint64_t>(shape));
      std::vector<std::vector<float>> logits;
      std::vector<kernels::RowSampler> samplers;
      std::vector<int64_t> want;
      const auto options = chains();
      for (size_t n = 0; n < 2 * options.size(); ++n) {
        const SamplerOptions& o = options[n % options.size()];
        std::vector<float> row(cols);
        for (size_t i = 0; i < cols; ++i) {
          const float x = rng.normal(n * cols + i);
          row[i] = shape == kNormal  ? 3 * x
                   : shape == kWide  ? 1e4f * x
                   : shape == kEqual ? -2.5f
                   : shape == kSteps ? std::floor(x) - 0.0f
                   : shape == kOne   ? (i == cols / 2 ? 1.0f : -80.0f)
                                     : x;
          if (shape == kMasked && i % 3 != 1) row[i] = -kInfinity;
        }
        if (shape == kMasked) row[cols - 1] = 0.5f;
        const Sampler sampler(o);
        const auto known = sampler.row_sampler(n);
        ASSERT_TRUE(known.has_value());
        samplers.push_back(*known);
        const auto next = Sampler(o).next(row, {}, n);
        ASSERT_TRUE(next.ok()) << next.error().text();
        want.push_back(*next);
        logits.push_back(std::move(row));
      }
      const auto got = draw(logits, samplers);
      for (size_t n = 0; n < want.size(); ++n) {
        const bool overflows = samplers[n].temperature > 0 && samplers[n].temperature < 1e-20f;
        EXPECT_TRUE(got[n] == want[n] || (overflows && got[n] == -1))
            << "cols " << cols << " shape " << shape << " chain " << n % options.size() << ": " << got[n]
            << " instead of " << want[n];
      }
    }
}

TEST_P(SampleRowsTest, BrokenLogitsAreLeftToTheHost) {
  std::vector<float> fine(100, 0.0f), nan = fine, infinite = fine, masked(100, -kInfinity);
  nan[70] = std::numeric_limits<float>::quiet_NaN(), infinite[3] = kInfinity;
  const std::vector<kernels::RowSampler> samplers(4, {1.0f, 0.0f, 0, 1.0, 1, 0});
  const auto tokens = draw({fine, nan, infinite, masked}, samplers);
  EXPECT_GE(tokens[0], 0);
  EXPECT_EQ(std::vector<int64_t>(tokens.begin() + 1, tokens.end()), (std::vector<int64_t>{-1, -1, -1}));
}

TEST_P(SampleRowsTest, TokensFollowTheirProbabilities) {
  const std::vector<float> row = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  std::vector<int64_t> counts(3);
  const uint64_t draws = device_->name() != "cuda" || test::is_real_gpu(*device_) ? 4000 : 600;
  std::vector<kernels::RowSampler> samplers;
  for (uint64_t i = 0; i < draws; ++i) samplers.push_back({1.0f, 0.0f, 0, 1.0, 5, i});
  const double tolerance = 1.9 / std::sqrt(static_cast<double>(draws));
  for (const int64_t token : draw(std::vector<std::vector<float>>(draws, row), samplers))
    ++counts[static_cast<size_t>(token)];
  EXPECT_NEAR(static_cast<double>(counts[0]) / static_cast<double>(draws), 0.5, tolerance);
  EXPECT_NEAR(static_cast<double>(counts[1]) / static_cast<double>(draws), 0.3, tolerance);
}

}  // namespace
}  // namespace makar
