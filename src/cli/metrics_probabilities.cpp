// Metrics of probabilities against labels.
#include "base/file.h"
#include "base/quote.h"
#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "metrics/classification.h"

namespace makar {
namespace {

struct ProbabilityOptions {
  std::string labels, positive;
};

// The probabilities of the classes for each item; `labels` has the classes in the order of the columns.
Result<Probabilities> read_probabilities(const std::vector<std::string>& systems,
                                         const std::string& truth_file, const ProbabilityOptions& o) {
  Probabilities out;
  std::vector<std::string> truth;
  MAKAR_TRY(const auto values, read_values(truth_file));
  for (const std::string& file : systems) {
    MAKAR_TRY(const auto cells, read_cells(file));
    MAKAR_RETURN_IF_ERROR(same_count(values.size(), truth_file, cells.size(), file));
    for (size_t i = 0; i < cells.size(); ++i) {
      MAKAR_TRY(auto row, numbers_of(cells[i], fmt::format("{} item {}", file, i + 1)));
      if (row.size() == 1) row.insert(row.begin(), 1 - row[0]);
      if (!out.rows.empty() && row.size() != out.rows[0].size())
        return error_at(fmt::format("{} item {}", file, i + 1), "has {} numbers, the first item has {}",
                        row.size(), out.rows[0].size());
      out.rows.push_back(std::move(row));
    }
    truth.insert(truth.end(), values.begin(), values.end());
  }
  out.labels = o.labels.empty() ? sorted_labels(truth) : comma_list(o.labels);
  if (out.rows[0].size() == 2 && o.labels.empty()) {
    MAKAR_TRY(const std::string positive, positive_label(truth, o.positive));
    out.labels = {"", positive};
    for (const std::string& label : sorted_labels(truth))
      if (label != positive) out.labels[0] = label;
  }
  if (out.labels.size() != out.rows[0].size())
    return error_at(
        o.labels.empty() ? truth_file : "--labels",
        "has {} labels, but each item has {} probabilities; list all labels in their order with --labels",
        out.labels.size(), out.rows[0].size());
  std::unordered_map<std::string, uint32_t> index;
  for (const std::string& label : out.labels) index.emplace(label, static_cast<uint32_t>(index.size()));
  for (const std::string& label : truth) {
    const auto found = index.find(label);
    if (found == index.end()) return error_at(truth_file, "label {} is not in --labels", quote(label));
    out.truth.push_back(found->second);
  }
  return out;
}

}  // namespace

int run_probability_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  ProbabilityOptions o;
  int64_t bins = 10;
  std::string plot;
  Options options("metrics " + name, "Compare probabilities with true labels.",
                  fmt::format("makar metrics {} --hyp probabilities.txt --ref labels.txt", name));
  files.declare(
      options,
      "probabilities, per line one (of the positive label) or one for each label; repeat for more systems",
      kTruthHelp);
  options.group("Metric");
  options.add("--positive", &o.positive, "the positive label; the last one in order if not set", "LABEL");
  options.add("--labels", &o.labels, "the labels in the order of the numbers, separated by commas", "LIST");
  options.add("--bins", &bins, "bins of the calibration error", "N");
  options.add("--svg", &plot, "write a calibration chart of the first system", "FILE");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  if (bins < 1 || bins > 10000) return report(error_at("--bins", "must be 1 to 10000, got {}", bins)), 2;
  const std::string main = name == "calibration"         ? "calibration_error"
                           : name == "average-precision" ? "average_precision"
                           : name == "log-loss"          ? "log_loss"
                                                         : name;
  bool plot_done = plot.empty();
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        MAKAR_TRY(const Probabilities p, read_probabilities(systems, files.ref[0], o));
        MAKAR_TRY(Evaluation e, evaluate_probabilities(p, main, bins));
        if (!plot_done && !e.details.contains("bins"))
          return error_at("--svg", "needs probabilities from 0 to 1");
        if (!plot_done) MAKAR_RETURN_IF_ERROR(write_file(plot, calibration_plot(e)));
        plot_done = true;
        return e;
      },
      output);
}

}  // namespace makar
