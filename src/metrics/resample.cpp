#include "metrics/resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace makar {
namespace {

void draw_units(const Rng& rng, size_t units, std::vector<uint32_t>& sample) {
  sample.resize(units);
  for (size_t i = 0; i < units; i += 4) {
    const auto bits = rng.bits(i / 4);
    for (size_t k = 0; k < 4 && i + k < units; ++k)
      sample[i + k] = static_cast<uint32_t>(uint64_t{bits[k]} * units >> 32);
  }
}

Interval interval_of(std::vector<double> scores, double level) {
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
  std::sort(scores.begin(), scores.end());
  // The share of scores that is cut off on each side, rounded down.
  const auto cut = static_cast<size_t>(static_cast<double>(scores.size()) * (1 - level) / 2 + 1e-9);
  return {scores[std::min(cut, scores.size() - 1)],
          scores[scores.size() - 1 - std::min(cut, scores.size() - 1)], mean};
}

std::vector<uint32_t> range_of(size_t first, size_t count) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), static_cast<uint32_t>(first));
  return out;
}

// The share of resampled statistics that are at least the observed one, which counts as one of them. Values
// that differ only by rounding count as equal.
double p_value(const std::vector<double>& statistics, double observed) {
  const double min = observed - 1e-12 * std::max(1.0, observed);
  const auto at_least =
      std::count_if(statistics.begin(), statistics.end(), [&](double s) { return s >= min; });
  return static_cast<double>(at_least + 1) / static_cast<double>(statistics.size() + 1);
}

// Scores of resamples, without those that are not defined.
std::vector<double> resampled(size_t units, const std::function<double(Sample)>& score,
                              const ResampleOptions& o) {
  std::vector<double> scores;
  if (units == 0 || o.resamples <= 0 || !score) return scores;
  std::vector<uint32_t> sample;
  for (int64_t r = 0; r < o.resamples; ++r) {
    draw_units(Rng(o.seed, Purpose::kSample, static_cast<uint64_t>(r)), units, sample);
    const double one = score(sample);
    if (std::isfinite(one)) scores.push_back(one);
  }
  return scores;
}

double observed_difference(const Evaluation& both) {
  const size_t units = both.units / 2;
  return both.score_of(range_of(units, units)) - both.score_of(range_of(0, units));
}

}  // namespace

std::optional<double> bootstrap_error(const Evaluation& evaluation, const ResampleOptions& o) {
  const auto scores = resampled(evaluation.units, evaluation.score_of, o);
  if (scores.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / count;
  double squares = 0;
  for (const double one : scores) squares += (one - mean) * (one - mean);
  return std::sqrt(squares / (count - 1));
}

std::optional<Interval> bootstrap_interval(size_t units, const std::function<double(Sample)>& score,
                                           const ResampleOptions& o) {
  std::vector<double> scores = resampled(units, score, o);
  if (scores.empty()) return std::nullopt;
  return interval_of(std::move(scores), o.level);
}

std::optional<Interval> bootstrap_interval(const Evaluation& e, const ResampleOptions& o) {
  return bootstrap_interval(e.units, e.score_of, o);
}

Interval wilson_interval(int64_t hits, int64_t count) {
  if (count <= 0) return {0, 1, 0.5};
  constexpr double kZ = 1.959963984540054;
  const auto n = static_cast<double>(count);
  const double p = static_cast<double>(hits) / n, z2 = kZ * kZ;
  const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half_width = kZ / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, middle - half_width), std::min(1.0, middle + half_width), p};
}

PairedTest paired_bootstrap(const Evaluation& both, const ResampleOptions& o) {
  PairedTest out{observed_difference(both)};
  const size_t units = both.units / 2;
  std::vector<double> differences;
  std::vector<uint32_t> first, second;
  for (int64_t r = 0; r < o.resamples; ++r) {
    draw_units(Rng(o.seed, Purpose::kSample, static_cast<uint64_t>(r)), units, first);
    second = first;
    for (uint32_t& i : second) i += static_cast<uint32_t>(units);
    const double difference = both.score_of(second) - both.score_of(first);
    if (std::isfinite(difference)) differences.push_back(difference);
  }
  if (differences.empty()) return out;
  // Shifted to mean 0: the differences under the null hypothesis.
  const double mean =
      std::accumulate(differences.begin(), differences.end(), 0.0) / static_cast<double>(differences.size());
  std::vector<double> magnitudes;
  for (const double difference : differences) magnitudes.push_back(std::abs(difference - mean));
  out.p = p_value(magnitudes, std::abs(out.difference));
  out.interval = interval_of(std::move(differences), o.level);
  return out;
}

PairedTest approximate_randomisation(const Evaluation& both, const ResampleOptions& o) {
  PairedTest out{observed_difference(both)};
  const auto units = static_cast<uint32_t>(both.units / 2);
  std::vector<double> magnitudes;
  std::vector<uint32_t> first(units), second(units);
  for (int64_t t = 0; t < o.trials; ++t) {
    const Rng rng(o.seed, Purpose::kShuffle, static_cast<uint64_t>(t));
    std::array<uint32_t, 4> bits = {};
    for (uint32_t i = 0; i < units; ++i) {
      if (i % 128 == 0) bits = rng.bits(i / 128);
      const bool swap = bits[i / 32 % 4] >> (i % 32) & 1;
      first[i] = swap ? units + i : i, second[i] = swap ? i : units + i;
    }
    magnitudes.push_back(std::abs(both.score_of(second) - both.score_of(first)));
  }
  if (!magnitudes.empty()) out.p = p_value(magnitudes, std::abs(out.difference));
  return out;
}

McNemar mcnemar(const std::vector<bool>& first, const std::vector<bool>& second) {
  McNemar out;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i] && !second[i]) ++out.only_first;
    if (!first[i] && second[i]) ++out.only_second;
  }
  const int64_t n = out.only_first + out.only_second, k = std::min(out.only_first, out.only_second);
  if (n == 0) return out;
  const auto count = static_cast<double>(n);
  double tail = 0;  // P(X <= k) of a fair coin tossed n times, by logarithms
  for (int64_t i = 0; i <= k; ++i) {
    const auto x = static_cast<double>(i);
    tail += std::exp(std::lgamma(count + 1) - std::lgamma(x + 1) - std::lgamma(count - x + 1) -
                     count * std::log(2.0));
  }
  out.exact_p = std::min(1.0, 2 * tail);
  const double gap = std::max(0.0, std::abs(static_cast<double>(out.only_first - out.only_second)) - 1);
  out.chi2 = gap * gap / count;
  out.chi2_p = std::erfc(std::sqrt(out.chi2 / 2));
  return out;
}

}  // namespace makar
