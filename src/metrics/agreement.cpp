#include "metrics/agreement.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "base/quote.h"

namespace makar {
namespace {

std::vector<double> mean_ranks(const std::vector<double>& x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
  std::vector<double> ranks(x.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && x[order[end]] == x[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = (static_cast<double>(i + end) - 1) / 2;
    i = end;
  }
  return ranks;
}

// Sorts and returns the number of swaps of adjacent values that this takes.
double merge_sort_swaps(std::vector<double>& v, std::vector<double>& scratch, size_t from, size_t to) {
  if (to - from < 2) return 0;
  const size_t middle = (from + to) / 2;
  double count = merge_sort_swaps(v, scratch, from, middle) + merge_sort_swaps(v, scratch, middle, to);
  for (size_t i = from, j = middle, k = from; k < to; ++k) {
    const bool left = i < middle && (j >= to || v[i] <= v[j]);
    if (!left) count += static_cast<double>(middle - i);
    scratch[k] = left ? v[i++] : v[j++];
  }
  std::copy(scratch.begin() + static_cast<ptrdiff_t>(from), scratch.begin() + static_cast<ptrdiff_t>(to),
            v.begin() + static_cast<ptrdiff_t>(from));
  return count;
}

// Pairs of equal values.
template <class T>
double tied_pairs(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  double pairs = 0;
  for (size_t i = 0; i < values.size();) {
    size_t end = i;
    while (end < values.size() && values[end] == values[i]) ++end;
    const auto run = static_cast<double>(end - i);
    pairs += run * (run - 1) / 2, i = end;
  }
  return pairs;
}

double correlation(const std::vector<double>& x, const std::vector<double>& y, const std::string& name) {
  return name == "pearson" ? pearson(x, y) : name == "spearman" ? spearman(x, y) : kendall(x, y);
}

}  // namespace

double fleiss_kappa(const std::vector<std::vector<std::string>>& raters) {
  const size_t items = raters.empty() ? 0 : raters[0].size();
  const auto n = static_cast<double>(raters.size());
  std::unordered_map<std::string, double> totals;
  double agreement = 0;
  for (size_t i = 0; i < items; ++i) {
    std::unordered_map<std::string, double> counts;
    for (const auto& labels : raters) ++counts[labels[i]], ++totals[labels[i]];
    double squares = 0;
    for (const auto& [label, count] : counts) squares += count * count;
    agreement += (squares - n) / (n * (n - 1));
  }
  agreement /= static_cast<double>(items);
  double chance = 0;
  for (const auto& [label, count] : totals) {
    const double share = count / (n * static_cast<double>(items));
    chance += share * share;
  }
  return chance < 1 ? (agreement - chance) / (1 - chance) : 1;
}

Evaluation evaluate_fleiss(const std::vector<std::vector<std::string>>& labels_by_rater) {
  const auto raters = std::make_shared<const std::vector<std::vector<std::string>>>(labels_by_rater);
  Evaluation out;
  out.name = "fleiss_kappa", out.units = labels_by_rater.empty() ? 0 : labels_by_rater[0].size();
  out.signature = fmt::format("raters:{}|items:{}", labels_by_rater.size(), out.units);
  out.score = fleiss_kappa(labels_by_rater);
  out.score_of = [raters](Sample sample) {
    std::vector<std::vector<std::string>> drawn(raters->size());
    for (size_t r = 0; r < raters->size(); ++r)
      for (const uint32_t i : sample) drawn[r].push_back((*raters)[r][i]);
    return fleiss_kappa(drawn);
  };
  return out;
}

double pearson(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n,
               my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i)
    xy += (x[i] - mx) * (y[i] - my), xx += (x[i] - mx) * (x[i] - mx), yy += (y[i] - my) * (y[i] - my);
  return xy / std::sqrt(xx * yy);
}

double spearman(const std::vector<double>& x, const std::vector<double>& y) {
  return pearson(mean_ranks(x), mean_ranks(y));
}

// Knight's algorithm (1966): sorts by x, then counts the adjacent swaps that sort y.
double kendall(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<std::pair<double, double>> both(x.size());
  for (size_t i = 0; i < x.size(); ++i) both[i] = {x[i], y[i]};
  std::sort(both.begin(), both.end());
  std::vector<double> by_x(x.size()), scratch(x.size());
  for (size_t i = 0; i < both.size(); ++i) by_x[i] = both[i].second;
  const double discordant = merge_sort_swaps(by_x, scratch, 0, by_x.size());
  const auto n = static_cast<double>(x.size());
  const double pairs = n * (n - 1) / 2, tied_x = tied_pairs(x), tied_y = tied_pairs(y),
               tied_both = tied_pairs(both);
  return (pairs - tied_x - tied_y + tied_both - 2 * discordant) /
         std::sqrt((pairs - tied_x) * (pairs - tied_y));
}

Result<Evaluation> evaluate_correlation(const std::vector<double>& x, const std::vector<double>& y,
                                        const std::string& main) {
  const auto both = std::make_shared<const std::pair<std::vector<double>, std::vector<double>>>(x, y);
  Evaluation out;
  out.name = main, out.units = x.size();
  out.signature = fmt::format("items:{}", x.size());
  out.score = correlation(x, y, main);
  if (!std::isfinite(out.score))
    return error_at(main, "is not defined: one of the two lists has fewer than two different numbers");
  out.score_of = [both, main](Sample sample) {
    std::vector<double> a, b;
    for (const uint32_t i : sample) a.push_back(both->first[i]), b.push_back(both->second[i]);
    return correlation(a, b, main);
  };
  for (const char* name : {"pearson", "spearman", "kendall"}) out.details[name] = correlation(x, y, name);
  return out;
}

Result<Evaluation> evaluate_win_rate(const std::vector<std::string>& outcomes) {
  std::vector<double> unit_scores;
  int64_t wins = 0, ties = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const bool win = outcomes[i] == "win", tie = outcomes[i] == "tie";
    if (!win && !tie && outcomes[i] != "loss")
      return error_at(segment_place(i), "expected win, tie or loss, found {}", quote(outcomes[i]));
    wins += win ? 1 : 0, ties += tie ? 1 : 0;
    unit_scores.push_back(win ? 1 : tie ? 0.5 : 0);
  }
  const auto all = static_cast<int64_t>(outcomes.size());
  Evaluation out =
      evaluation_of_mean("win_rate", fmt::format("ties:half|comparisons:{}", all), std::move(unit_scores));
  out.details = {{"wins", wins}, {"ties", ties}, {"losses", all - wins - ties}};
  return out;
}

double pass_at(int64_t n, int64_t c, int64_t k) {
  if (n - c < k) return 1;
  double all_fail = 1;
  for (int64_t i = n - c + 1; i <= n; ++i) all_fail *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - all_fail;
}

Result<Evaluation> evaluate_pass(const std::vector<Attempts>& problems, int64_t k) {
  std::vector<double> unit_scores;
  for (const Attempts& a : problems) {
    if (a.total < k)
      return error_at(a.problem, "has {} samples; pass@{} needs at least {} per problem", a.total, k, k);
    unit_scores.push_back(pass_at(a.total, a.passed, k));
  }
  return evaluation_of_mean(fmt::format("pass@{}", k), fmt::format("k:{}|problems:{}", k, problems.size()),
                            std::move(unit_scores));
}

}  // namespace makar
