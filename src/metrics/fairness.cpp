#include "metrics/fairness.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "metrics/classification.h"

namespace makar {
namespace {

template <class Rate>
std::pair<double, double> extremes(const std::vector<GroupRates>& rates, const Rate& rate) {
  double low = INFINITY, high = -INFINITY;
  for (const GroupRates& g : rates) low = std::min(low, rate(g)), high = std::max(high, rate(g));
  return {low, high};
}

std::vector<uint32_t> every_index(size_t count) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), uint32_t{0});
  return out;
}

}  // namespace

std::vector<GroupRates> group_rates(const FairnessItems& items, Sample sample) {
  std::map<std::string, GroupRates> groups;
  for (const uint32_t i : sample) {
    GroupRates& g = groups[items.groups[i]];
    const bool chosen = items.predicted[i], truth = items.truth[i];
    ++g.count, ++(truth ? g.positives : g.negatives);
    g.selection_rate += chosen ? 1 : 0, g.accuracy += chosen == truth ? 1 : 0;
    if (chosen) (truth ? g.true_positive_rate : g.false_positive_rate) += 1;
  }
  std::vector<std::string> names;
  for (const auto& [name, g] : groups) names.push_back(name);
  std::vector<GroupRates> out;
  for (const std::string& name : sorted_labels(names)) {
    GroupRates g = groups[name];
    g.group = name;
    const auto rate = [](double hits, int64_t all) { return all > 0 ? hits / static_cast<double>(all) : 0; };
    g.selection_rate = rate(g.selection_rate, g.count), g.accuracy = rate(g.accuracy, g.count);
    g.true_positive_rate = rate(g.true_positive_rate, g.positives);
    g.false_positive_rate = rate(g.false_positive_rate, g.negatives);
    out.push_back(std::move(g));
  }
  return out;
}

std::vector<std::string> fairness_metrics() {
  return {"demographic_parity_difference", "demographic_parity_ratio",  "equal_opportunity_difference",
          "equal_opportunity_ratio",       "equalized_odds_difference", "equalized_odds_ratio"};
}

double fairness_metric(const std::vector<GroupRates>& rates, const std::string& name) {
  const bool difference = name.ends_with("_difference");
  const auto compare = [&](const auto& rate) {
    const auto [low, high] = extremes(rates, rate);
    return difference ? high - low : high > 0 ? low / high : NAN;
  };
  if (name.starts_with("demographic_parity"))
    return compare([](const GroupRates& g) { return g.selection_rate; });
  const double tpr = compare([](const GroupRates& g) { return g.true_positive_rate; });
  if (name.starts_with("equal_opportunity")) return tpr;
  const double fpr = compare([](const GroupRates& g) { return g.false_positive_rate; });
  if (difference) return std::max(tpr, fpr);
  // A rate of 0 in every group has no ratio; the other rate decides.
  return std::isnan(tpr) ? fpr : std::isnan(fpr) ? tpr : std::min(tpr, fpr);
}

Evaluation evaluate_fairness(const FairnessItems& input, const std::string& main) {
  const auto items = std::make_shared<const FairnessItems>(input);
  Evaluation out;
  out.name = main, out.units = items->groups.size();
  const auto rates = group_rates(*items, every_index(out.units));
  out.signature = fmt::format("groups:{}|items:{}", rates.size(), out.units);
  out.score = fairness_metric(rates, main);
  out.lower_is_better = main.ends_with("_difference");
  out.score_of = [items, main](Sample sample) { return fairness_metric(group_rates(*items, sample), main); };
  for (const std::string& metric : fairness_metrics()) {
    const double value = fairness_metric(rates, metric);
    out.details[metric] = std::isfinite(value) ? Json(value) : Json();
  }
  for (const GroupRates& g : rates)
    out.details["groups"].push_back({{"group", g.group},
                                     {"n", g.count},
                                     {"selection_rate", g.selection_rate},
                                     {"tpr", g.true_positive_rate},
                                     {"fpr", g.false_positive_rate},
                                     {"accuracy", g.accuracy}});
  return out;
}

Evaluation evaluate_representation(const std::vector<std::string>& groups,
                                   const std::vector<std::pair<std::string, double>>& expected) {
  std::vector<std::string> names = groups;
  for (const auto& [name, share] : expected) names.push_back(name);
  names = sorted_labels(std::move(names));
  std::map<std::string, uint32_t> index;
  for (const std::string& name : names) index.emplace(name, static_cast<uint32_t>(index.size()));
  std::vector<double> expected_shares(
      names.size(), expected.empty() && !names.empty() ? 1 / static_cast<double>(names.size()) : 0);
  double all = 0;
  for (const auto& [name, share] : expected) all += share;
  for (const auto& [name, share] : expected) expected_shares[index[name]] = all > 0 ? share / all : 0;
  std::vector<uint32_t> ids;
  for (const std::string& g : groups) ids.push_back(index[g]);
  const auto distance = [ids, expected_shares](Sample sample) {
    std::vector<double> counts(expected_shares.size());
    for (const uint32_t i : sample) counts[ids[i]] += 1;
    double sum = 0;
    for (size_t g = 0; g < expected_shares.size(); ++g)
      sum +=
          std::abs(counts[g] / static_cast<double>(std::max<size_t>(sample.size(), 1)) - expected_shares[g]) /
          2;
    return sum;
  };
  Evaluation out;
  out.name = "representation", out.units = groups.size();
  out.signature = fmt::format("groups:{}|items:{}|expected:{}", names.size(), groups.size(),
                              expected.empty() ? "equal" : "given");
  out.lower_is_better = true;
  out.score = distance(every_index(groups.size()));
  out.score_of = distance;
  for (size_t g = 0; g < names.size(); ++g) {
    const auto count = std::count(ids.begin(), ids.end(), static_cast<uint32_t>(g));
    out.details["groups"].push_back(
        {{"group", names[g]},
         {"count", count},
         {"share", groups.empty() ? 0 : static_cast<double>(count) / static_cast<double>(groups.size())},
         {"expected", expected_shares[g]}});
  }
  return out;
}

}  // namespace makar
