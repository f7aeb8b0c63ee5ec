// Positions as dot products and distances of every pair, and as biases.
#include "models/positions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_device.h"
#include "models/subjects.h"

namespace makar {
namespace {

PositionMap only_map(const std::string& name, int64_t size, int64_t head = 0) {
  const LoadedModel loaded = subject("golden/" + name);
  CpuDevice device(1);
  Context ctx{device};
  const auto maps = position_maps(ctx, *loaded.model, loaded.model->spec().main(), size, head);
  check(maps.size() == 1, "one encoding");
  return maps[0];
}

// The sum of cosines of the distance for base 10000.
double similarity(int64_t distance, int64_t width) {
  double sum = 0;
  for (int64_t c = 0; c < width / 2; ++c)
    sum += std::cos(static_cast<double>(distance) *
                    std::pow(1e4, -2.0 * static_cast<double>(c) / static_cast<double>(width)));
  return sum;
}

TEST(Positions, DependOnTheDistanceAlone) {
  for (const auto& [name, kind, width] :
       {std::tuple("marian-sinusoidal", "sinusoidal", 64), {"llama", "rotary", 16}}) {
    const PositionMap map = only_map(name, 20);
    EXPECT_EQ(map.kind, kind);
    EXPECT_LT(map.spread(), 1e-5);
    for (int64_t i = 0; i < 20; ++i)
      for (int64_t j = 0; j < 20; ++j) {
        const double dot = similarity(i - j, width);
        EXPECT_NEAR(map.at(i, j), dot, 1e-5);
        EXPECT_NEAR(map.distances[static_cast<size_t>(20 * i + j)], std::sqrt(width - 2 * dot), 1e-2);
      }
  }
}

TEST(Positions, LearnedTablesDependOnMore) {
  const PositionMap map = only_map("gpt2", 1000);
  EXPECT_EQ(map.kind, "learned");
  EXPECT_EQ(map.size, 64);
  EXPECT_GT(map.spread(), 1);
}

TEST(Positions, BiasesAreByDistance) {
  const PositionMap alibi = only_map("bloom-alibi", 12, 1), t5 = only_map("t5-relu-tied", 12);
  EXPECT_EQ(alibi.at(7, 4), -3 * std::pow(2.0, -4));
  EXPECT_EQ(alibi.spread(), 0);
  EXPECT_EQ(t5.spread(), 0);
  EXPECT_TRUE(t5.distances.empty());
}

}  // namespace
}  // namespace makar
