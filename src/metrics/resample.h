// Confidence intervals and tests of significance by resampling, and McNemar's test. Every draw is a function
// of the seed and its index.
#pragma once
#include <cstdint>
#include <optional>

#include "metrics/evaluation.h"

namespace makar {

struct ResampleOptions {
  int64_t resamples = 1000;  // of the bootstrap
  int64_t trials = 10000;    // of approximate randomisation
  uint64_t seed = 12345;
  double level = 0.95;
};

struct Interval {
  double low = 0, high = 0, mean = 0;
};
// The percentile bootstrap (Efron, 1979): units are drawn with replacement. nullopt if there is nothing to
// draw.
std::optional<Interval> bootstrap_interval(const Evaluation& evaluation, const ResampleOptions& options);
// The same for any function of a sample of `units` units.
std::optional<Interval> bootstrap_interval(size_t units, const std::function<double(Sample)>& score,
                                           const ResampleOptions& options);

// Wilson's 95 % score interval (1927) of the rate hits / count. It has a width even at rates of 0 and 1.
Interval wilson_interval(int64_t hits, int64_t count);

// The standard deviation of the scores of resamples: the bootstrap's standard error.
std::optional<double> bootstrap_error(const Evaluation& evaluation, const ResampleOptions& options);

// Two systems on the same units. `both` evaluates the units of the first system followed by those of the
// second.
struct PairedTest {
  double difference = 0;  // of the second from the first
  double p = 1;
  Interval interval = {};  // of the difference; only from the bootstrap
};
// Paired bootstrap: units are drawn together; p is the share of differences, shifted to mean 0, that exceed
// the observed one (Riezler and Maxwell, 2005). sacrebleu shifts absolute differences instead, and finds
// significance too often.
PairedTest paired_bootstrap(const Evaluation& both, const ResampleOptions& options);
// Approximate randomisation (Noreen, 1989): units are exchanged at random.
PairedTest approximate_randomisation(const Evaluation& both, const ResampleOptions& options);

// McNemar's test (1947) on the units that exactly one system gets right.
struct McNemar {
  int64_t only_first = 0, only_second = 0;
  double exact_p = 1;           // two-sided, binomial
  double chi2 = 0, chi2_p = 1;  // with the continuity correction
};
McNemar mcnemar(const std::vector<bool>& first, const std::vector<bool>& second);

}  // namespace makar
