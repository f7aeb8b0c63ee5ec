// Metrics of groups: fairness of decisions, and representation.
#include <cmath>

#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "metrics/fairness.h"

namespace makar {

int run_fairness_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  std::string group, positive, metric = name == "fairness" ? "demographic_parity_difference" : name;
  Options options("metrics fairness",
                  "Group fairness of decisions: rates of each group, differences and ratios.",
                  "makar metrics fairness --hyp decisions.txt --ref labels.txt --group groups.txt");
  files.declare(options,
                "decisions: FILE with one label per line, or FILE:COLUMN of a table; repeat for more systems",
                kTruthHelp);
  options.add("--group --sensitive-features", &group, "the group of each item", "FILE").required = true;
  options.group("Metric");
  options.add("--metric", &metric,
              "the score: demographic_parity, equal_opportunity or equalized_odds with _difference "
              "or _ratio",
              "NAME");
  options.add("--positive", &positive, "the positive label; the last one in order if not set", "LABEL");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  const auto known = fairness_metrics();
  if (std::find(known.begin(), known.end(), metric) == known.end())
    return report(error_at("--metric", "expected one of {}, got '{}'", fmt::join(known, ", "), metric)), 2;
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        MAKAR_TRY(const auto p, read_paired<std::string>(systems, files.ref[0], read_values));
        MAKAR_TRY(const auto groups, read_values(group));
        MAKAR_RETURN_IF_ERROR(same_count(p.ref.size() / systems.size(), files.ref[0], groups.size(), group));
        std::vector<std::string> all = p.ref;
        all.insert(all.end(), p.hyp.begin(), p.hyp.end());
        MAKAR_TRY(const std::string yes, positive_label(all, positive));
        FairnessItems items;
        for (size_t i = 0; i < p.ref.size(); ++i) {
          items.predicted.push_back(p.hyp[i] == yes), items.truth.push_back(p.ref[i] == yes);
          items.groups.push_back(groups[i % groups.size()]);
        }
        Evaluation e = evaluate_fairness(items, metric);
        e.signature += "|positive:" + yes;
        if (!std::isfinite(e.score))
          return error_at(metric,
                          "no group has a rate above 0: the ratio is not defined; use the difference");
        // An interval for every rate of every group.
        for (Json& g : e.details["groups"])
          for (const char* rate : {"selection_rate", "tpr", "fpr"}) {
            const auto of_group = [&](Sample sample) {
              for (const GroupRates& r : group_rates(items, sample))
                if (r.group == g["group"].get<std::string>())
                  return std::string_view(rate) == "tpr"   ? r.true_positive_rate
                         : std::string_view(rate) == "fpr" ? r.false_positive_rate
                                                           : r.selection_rate;
              return double(NAN);
            };
            if (const auto i = bootstrap_interval(items.groups.size(), of_group, output.resample))
              g[std::string(rate) + "_interval"] = {i->low, i->high};
          }
        return e;
      },
      output);
}

int run_representation_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricOutput output;
  std::string group, expected;
  Options options("metrics " + name,
                  "How often each group occurs, and the distance from the expected shares.",
                  "makar metrics representation --group groups.txt --expected women=1,men=1");
  options.group("Input");
  options
      .add("--group --hyp", &group, "the group of each item: FILE with one per line, or FILE:COLUMN", "FILE")
      .required = true;
  options.group("Metric");
  options.add("--expected", &expected,
              "expected shares as GROUP=WEIGHT, separated by commas; equal if not set", "LIST");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  std::vector<std::pair<std::string, double>> shares;
  for (const std::string& part : comma_list(expected)) {
    const size_t at = part.rfind('=');
    const auto weight = at == std::string::npos ? numbers_of({}, "--expected")
                                                : numbers_of({part.substr(at + 1)}, "--expected");
    if (!weight.ok() || weight->size() != 1 || (*weight)[0] < 0)
      return report(error_at("--expected", "expected GROUP=WEIGHT, got '{}'", part)), 2;
    shares.emplace_back(part.substr(0, at), (*weight)[0]);
  }
  return report_metric(
      {group},
      [&](const std::vector<std::string>&) -> Result<Evaluation> {
        MAKAR_TRY(const auto groups, read_values(group));
        if (groups.empty()) return error_at(group, "has no values");
        return evaluate_representation(groups, shares);
      },
      output);
}

}  // namespace makar
