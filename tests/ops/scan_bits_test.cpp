// Selective scans have specialised code for common numbers of states. It gives the same bits as the general
// code, which runs if a state without effect is added.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "ops/scan.h"

namespace makar {
namespace {

TEST(ScanBits, SpecialisedStateCountsGiveTheSameBits) {
  CpuDevice device(2);
  Context ctx{device};
  constexpr int64_t kTokens = 9, kHeads = 4, kDim = 3, kGroups = 2;
  const Rng rng(3, Purpose::kSynthetic);
  uint64_t draws = 0;
  const auto random = [&](const Shape& shape, float shift) {
    Tensor t = Tensor::empty(shape);
    for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = rng.normal(draws++) + shift;
    return t;
  };
  // Adds a column of zeros after every `block` columns.
  const auto with_zero_columns = [](const Tensor& t, int64_t block) {
    const int64_t rows = t.count() / block;
    Tensor out = Tensor::zeros({t.dim(0), t.dim(1) / block * (block + 1)});
    for (int64_t r = 0; r < rows; ++r) std::copy_n(t.f32() + r * block, block, out.f32() + r * (block + 1));
    return out;
  };
  const std::vector<kernels::SequenceRows> sequences = {{0, kTokens, 0, kTokens, 0}};
  for (const int64_t states : {16, 64, 128})
    for (const bool shared : {false, true}) {
      const Tensor x = random({kTokens, kHeads * kDim}, 0), d = random({kHeads}, 0);
      Tensor dt = random({kTokens, kHeads}, 0);
      for (int64_t i = 0; i < dt.count(); ++i) dt.f32()[i] = 0.01f + std::fabs(dt.f32()[i]);
      const Tensor a = random(shared ? Shape{kHeads} : Shape{kHeads, states}, 0),
                   b = random({kTokens, kGroups * states}, 0), c = random({kTokens, kGroups * states}, 0);
      const auto batch = ops::attention_batch(ctx, sequences);
      const Tensor specialised = ops::selective_scan(ctx, {x, dt, a, {}, b, c, d}, kGroups, batch, 0);
      const Tensor general = ops::selective_scan(ctx,
                                                 {x,
                                                  dt,
                                                  shared ? a : with_zero_columns(a, states),
                                                  {},
                                                  with_zero_columns(b, states),
                                                  with_zero_columns(c, states),
                                                  d},
                                                 kGroups, batch, 0);
      for (int64_t i = 0; i < specialised.count(); ++i)
        ASSERT_EQ(specialised.f32()[i], general.f32()[i]) << states << " states, output " << i;
    }
}

}  // namespace
}  // namespace makar
