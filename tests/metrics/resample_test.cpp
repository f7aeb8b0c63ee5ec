// Intervals cover the true mean about as often as they claim; tests find only differences that exist.
#include "metrics/resample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace makar {
namespace {

// Values with mean `mean` and standard deviation 1.
std::vector<double> noise(uint64_t seed, size_t count, double mean) {
  std::vector<double> out;
  const Rng rng(seed, Purpose::kSynthetic);
  for (size_t i = 0; i < count; ++i) out.push_back(mean + static_cast<double>(rng.normal(i)));
  return out;
}

Evaluation both_of(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return evaluation_of_mean("mean", "", std::move(a));
}

TEST(Resample, IntervalsCoverTheTrueMean) {
  ResampleOptions o;
  o.resamples = 400;
  int covered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto i = bootstrap_interval(evaluation_of_mean("mean", "", noise(seed, 50, 3)), o);
    ASSERT_TRUE(i.has_value());
    covered += i->low <= 3 && 3 <= i->high;
    // The width of an interval of the mean of 50 values: 2 * 1.96 / sqrt(50).
    EXPECT_NEAR(i->high - i->low, 0.554, 0.25);
  }
  EXPECT_GE(covered, 178);
  EXPECT_LE(covered, 199);
  EXPECT_FALSE(bootstrap_interval(evaluation_of_mean("mean", "", {}), o).has_value());
}

TEST(Resample, TheSameSeedGivesTheSameInterval) {
  const Evaluation e = evaluation_of_mean("mean", "", noise(1, 30, 0));
  ResampleOptions o;
  const auto a = bootstrap_interval(e, o), b = bootstrap_interval(e, o);
  EXPECT_EQ(a->low, b->low);
  o.seed = 2;
  EXPECT_NE(bootstrap_interval(e, o)->low, a->low);
}

TEST(Resample, PairedTestsFindOnlyRealDifferences) {
  ResampleOptions o;
  o.resamples = o.trials = 500;
  int bootstrap_rejects = 0, random_rejects = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {  // no difference: few rejections
    const Evaluation same = both_of(noise(seed, 40, 0), noise(seed + 1000, 40, 0));
    bootstrap_rejects += paired_bootstrap(same, o).p < 0.05;
    random_rejects += approximate_randomisation(same, o).p < 0.05;
  }
  EXPECT_LE(bootstrap_rejects, 12);
  EXPECT_LE(random_rejects, 12);
  const Evaluation better = both_of(noise(1, 40, 0), noise(2, 40, 2));
  EXPECT_LT(paired_bootstrap(better, o).p, 0.01);
  EXPECT_LT(approximate_randomisation(better, o).p, 0.01);
  EXPECT_GT(paired_bootstrap(better, o).interval.low, 1);
  const Evaluation itself = both_of(noise(1, 9, 0), noise(1, 9, 0));
  EXPECT_EQ(paired_bootstrap(itself, o).difference, 0);
  EXPECT_EQ(paired_bootstrap(itself, o).p, 1);
  EXPECT_EQ(approximate_randomisation(itself, o).p, 1);
}

TEST(Resample, McNemarMatchesValuesByHand) {
  std::vector<bool> a, b;
  const auto add = [&](int count, bool x, bool y) {
    for (int i = 0; i < count; ++i) a.push_back(x), b.push_back(y);
  };
  add(50, true, true), add(6, true, false), add(2, false, true);
  const McNemar m = mcnemar(a, b);
  EXPECT_EQ(m.only_first, 6);
  EXPECT_EQ(m.only_second, 2);
  EXPECT_NEAR(m.exact_p, 2 * (1 + 8 + 28) / 256.0, 1e-12);
  EXPECT_NEAR(m.chi2, 9.0 / 8, 1e-12);
  EXPECT_NEAR(m.chi2_p, 0.288844, 1e-6);
  EXPECT_EQ(mcnemar({true}, {true}).exact_p, 1);
}

}  // namespace
}  // namespace makar
