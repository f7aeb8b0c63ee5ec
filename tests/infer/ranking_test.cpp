// Ranking by buckets, compared with a full sort.
#include "infer/samplers/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "kernels/sampling.h"

namespace makar {
namespace {

enum class Kind { kNormal, kTies, kEqual, kHeavy, kHuge, kLast };

std::vector<float> keys_of(Kind kind, size_t n, uint64_t seed) {
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<float> keys(n);
  for (size_t i = 0; i < n; ++i) {
    const float x = rng.normal(i);
    keys[i] = kind == Kind::kNormal  ? x * 3
              : kind == Kind::kTies  ? std::floor(x * 2)
              : kind == Kind::kEqual ? 1.5f
              : kind == Kind::kHeavy ? -std::exp2(std::fabs(x) * 25)
                                     : x * 1e38f;
  }
  return keys;
}

std::vector<size_t> sorted_indices(const std::vector<float>& keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  return order;
}

class RankingTest : public testing::TestWithParam<int> {};

TEST_P(RankingTest, CountAndMassAgreeWithASort) {
  for (const size_t n : {1u, 7u, 192u, 193u, 1000u, 20000u}) {
    const auto keys = keys_of(static_cast<Kind>(GetParam()), n, n);
    const auto order = sorted_indices(keys);
    const Rng rng(3, Purpose::kSynthetic, 1);
    std::vector<float> weights(n);
    for (size_t i = 0; i < n; ++i) weights[i] = std::floor(rng.uniform(i) * 8) / 8;  // sums are exact
    weights[order[0]] = 1;
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double share : {0.0, 0.1, 0.5, 0.9, 0.999, 1.0}) {
      const size_t count = std::max<size_t>(1, static_cast<size_t>(share * static_cast<double>(n)));
      EXPECT_EQ(rank_of_count(keys, extremes(keys), count).index, order[count - 1]);
      double sum = 0;
      size_t at = 0;
      while ((sum += weights[order[at]]) < share * total && at + 1 < n) ++at;
      EXPECT_EQ(
          rank_of_mass(keys, extremes(keys), weights, kernels::units_for(share, units_of(weights))).index,
          order[at])
          << n << " " << share;
    }
    for (const double share : {0.0, 0.3, 0.99, 0.9999999}) {
      double sum = 0;
      size_t at = 0;
      while ((sum += weights[at]) <= share * total) ++at;
      EXPECT_EQ(index_of_share(weights, share), at);
    }
    const auto top = largest(keys, 20);
    ASSERT_EQ(top.size(), std::min<size_t>(20, n));
    EXPECT_TRUE(std::equal(top.begin(), top.end(), order.begin()));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RankingTest, testing::Range(0, static_cast<int>(Kind::kLast)));

TEST(Ranking, ExtremesAreFoundAtEveryIndex) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t n : {1u, 15u, 16u, 17u, 100u})
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> x(n, 1.0f);
      x[at] = nan;
      EXPECT_TRUE(extremes(x).broken);
      x[at] = inf;
      EXPECT_TRUE(extremes(x).broken);
      x[at] = -inf;
      EXPECT_FALSE(extremes(x).broken);
      EXPECT_EQ(extremes(x).masked, 1u);
      x[at] = 7;
      EXPECT_EQ(extremes(x).high, 7);
      EXPECT_EQ(find_value(x, 7), at);
      x[at] = -7;
      EXPECT_EQ(extremes(x).low, -7);
    }
}

}  // namespace
}  // namespace makar
