#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace makar {
namespace {

// Known answers of Philox 4x32-10 from Random123 (Salmon et al., 2011). The counter is (index, step,
// purpose).
TEST(Rng, IsPhilox) {
  using Bits = std::array<uint32_t, 4>;
  const auto draw = [](uint64_t key, uint64_t low, uint32_t third, uint32_t fourth) {
    return Rng(key, static_cast<Purpose>(fourth), third).bits(low);
  };
  EXPECT_EQ(draw(0, 0, 0, 0), (Bits{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(draw(~uint64_t{0}, ~uint64_t{0}, ~0u, ~0u),
            (Bits{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(draw(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x13198a2e, 0x03707344),
            (Bits{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, EveryPartOfTheKeyGivesAnotherStream) {
  std::set<std::array<uint32_t, 4>> seen;
  size_t draws = 0;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63})
    for (const Purpose purpose : {Purpose::kInit, Purpose::kDropout, Purpose::kSample})
      for (const uint64_t step : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 40})
        for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}})
          seen.insert(Rng(seed, purpose, step).bits(index)), ++draws;
  EXPECT_EQ(seen.size(), draws);
}

TEST(Rng, UniformAndNormalHaveTheirMoments) {
  const Rng rng(7, Purpose::kSynthetic, 3);
  constexpr uint64_t kDraws = 200000;
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0, normal_fourth = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = rng.uniform(i), d = rng.uniform_double(i), n = rng.normal(i);
    ASSERT_TRUE(u >= 0 && u < 1 && d >= 0 && d < 1 && std::isfinite(n));
    sum += u, squares += u * u;
    normal_sum += n, normal_squares += n * n, normal_fourth += n * n * n * n;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.003);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.003);
  EXPECT_NEAR(normal_sum / kDraws, 0, 0.01);
  EXPECT_NEAR(normal_squares / kDraws, 1, 0.015);
  EXPECT_NEAR(normal_fourth / kDraws, 3, 0.15);
}

}  // namespace
}  // namespace makar
