// Metrics of labels, spans, numbers, raters and programs.
#include <cmath>

#include "base/quote.h"
#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "metrics/agreement.h"
#include "metrics/classification.h"
#include "metrics/spans.h"
#include "metrics/words.h"

namespace makar {
namespace {

constexpr const char* kLabelsHelp =
    "predicted labels: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems";

}  // namespace

int run_label_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  std::string average = "macro", weights = "none";
  Options options("metrics " + name,
                  "Compare labels with true labels; prints all scores and the confusion matrix.",
                  fmt::format("makar metrics {} --hyp predicted.txt --ref labels.txt", name));
  files.declare(options, kLabelsHelp, kTruthHelp);
  options.group("Metric");
  if (name == "f1")
    options.add("--average", &average, "average over classes: macro, micro or weighted", "NAME");
  if (name == "kappa")
    options.add("--weights", &weights,
                "weights of disagreements: none, linear or quadratic in the distance of labels", "NAME");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  if (average != "macro" && average != "micro" && average != "weighted")
    return report(error_at("--average", "expected macro, micro or weighted, got '{}'", average)), 2;
  const int64_t power = weights == "none" ? 0 : weights == "linear" ? 1 : weights == "quadratic" ? 2 : -1;
  if (power < 0)
    return report(error_at("--weights", "expected none, linear or quadratic, got '{}'", weights)), 2;
  const std::string main = name == "f1" ? "f1_" + average : name;
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        MAKAR_TRY(const auto p, read_paired<std::string>(systems, files.ref[0], read_values));
        return evaluate_classes(p.hyp, p.ref, main, power);
      },
      output);
}

int run_span_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  Options options("metrics " + name, "F1 of labelled spans, as seqeval and conlleval count them.",
                  "makar metrics span-f1 --hyp predicted.txt --ref labels.txt");
  files.declare(options, "predicted tags: FILE with the tags of a sequence per line, or FILE:COLUMN of lists",
                "true tags, in the same order");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  const auto read_tags = [](const std::string& file) -> Result<std::vector<std::vector<std::string>>> {
    MAKAR_TRY(auto cells, read_cells(file));
    for (Cell& cell : cells)
      if (cell.size() == 1) cell = split_words(cell[0]);
    return cells;
  };
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        MAKAR_TRY(const auto p, read_paired<Cell>(systems, files.ref[0], read_tags));
        const size_t per_system = p.hyp.size() / systems.size();
        for (size_t i = 0; i < p.hyp.size(); ++i)
          if (p.hyp[i].size() != p.ref[i].size())
            return error_at(systems[i / per_system], "sequence {} has {} tags, its reference has {}",
                            i % per_system + 1, p.hyp[i].size(), p.ref[i].size());
        return evaluate_spans(p.hyp, p.ref);
      },
      output);
}

int run_number_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  Options options("metrics " + name, "Correlation of two lists of numbers.",
                  fmt::format("makar metrics {} --hyp scores.txt --ref ratings.txt", name));
  files.declare(options,
                "numbers: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems",
                "numbers to compare with, in the same order");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        MAKAR_TRY(const auto p, read_paired<double>(systems, files.ref[0], read_numbers));
        return evaluate_correlation(p.hyp, p.ref, name);
      },
      output);
}

int run_agreement_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  Options options("metrics " + name, "Agreement of several raters, one file of labels for each.",
                  "makar metrics fleiss --hyp rater1.txt --hyp rater2.txt --hyp rater3.txt");
  files.declare(options,
                "the labels of one rater: FILE with one per line, or FILE:COLUMN of a table; once per rater",
                "");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  if (files.hyp.size() < 2) return report(error_at("--hyp", "agreement needs two raters or more")), 2;
  return report_metric(
      {files.hyp[0]},
      [&](const std::vector<std::string>&) -> Result<Evaluation> {
        std::vector<std::vector<std::string>> raters;
        for (const std::string& file : files.hyp) {
          MAKAR_TRY(auto labels, read_values(file));
          raters.push_back(std::move(labels));
          MAKAR_RETURN_IF_ERROR(same_count(raters[0].size(), files.hyp[0], raters.back().size(), file));
        }
        return evaluate_fleiss(raters);
      },
      output);
}

int run_win_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  Options options("metrics " + name, "Win rate of comparisons: (wins + half of the ties) / all.",
                  "makar metrics win-rate --hyp verdicts.txt");
  files.declare(options,
                "outcomes, each win, tie or loss: FILE with one per line, or FILE:COLUMN of a table; "
                "repeat for more systems",
                "");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        std::vector<std::string> outcomes;
        for (const std::string& file : systems) {
          MAKAR_TRY(const auto values, read_values(file));
          if (values.empty()) return error_at(file, "has no values");
          outcomes.insert(outcomes.end(), values.begin(), values.end());
        }
        return evaluate_win_rate(outcomes);
      },
      output);
}

int run_pass_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  int64_t k = 1;
  Options options("metrics pass", "Unbiased pass@k of generated programs (Chen et al., 2021).",
                  "makar metrics pass --hyp samples_results.jsonl -k 10");
  files.declare(options,
                "a .jsonl with {\"task_id\", \"passed\"} per sample, or a line per problem with two counts: "
                "samples, and samples that passed",
                "");
  options.group("Metric");
  options.add("-k --k", &k, "number of samples k", "N");
  std::vector<std::string> all_arguments = arguments;
  if (const size_t at = name.find('@'); at != std::string::npos)
    all_arguments.insert(all_arguments.begin(), {"-k", name.substr(at + 1)});
  if (const auto code = parse_metric(options, output, all_arguments)) return *code;
  if (k < 1 || k > 1000000) return report(error_at("--k", "must be 1 to 1000000, got {}", k)), 2;
  const auto attempts = [](const std::string& file) -> Result<std::vector<Attempts>> {
    std::vector<Attempts> out;
    if (!file.ends_with(".jsonl")) {
      MAKAR_TRY(const auto cells, read_cells(file));
      for (size_t i = 0; i < cells.size(); ++i) {
        const std::string place = fmt::format("{}:{}", file, i + 1);
        MAKAR_TRY(const auto n, numbers_of(cells[i], place));
        if (n.size() != 2 || n[1] < 0 || n[1] > n[0] || n[0] > 1e6 || n[0] != std::floor(n[0]) ||
            n[1] != std::floor(n[1]))
          return error_at(place, "expected two counts: samples, and samples that passed");
        out.push_back({place, static_cast<int64_t>(n[0]), static_cast<int64_t>(n[1])});
      }
      return out;
    }
    MAKAR_TRY(const auto problems, read_values(file + ":task_id"));
    MAKAR_TRY(const auto passed, read_values(file + ":passed"));
    std::unordered_map<std::string, size_t> index;
    for (size_t i = 0; i < problems.size(); ++i) {
      if (passed[i] != "true" && passed[i] != "false")
        return error_at(fmt::format("{} item {}", file, i + 1), "\"passed\" must be true or false, found {}",
                        quote(passed[i]));
      const auto [found, added] = index.emplace(problems[i], out.size());
      if (added) out.push_back({problems[i]});
      ++out[found->second].total, out[found->second].passed += passed[i] == "true" ? 1 : 0;
    }
    return out;
  };
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        std::vector<Attempts> all;
        for (const std::string& file : systems) {
          MAKAR_TRY(const auto values, attempts(file));
          if (values.empty()) return error_at(file, "has no samples");
          all.insert(all.end(), values.begin(), values.end());
        }
        return evaluate_pass(all, k);
      },
      output);
}

}  // namespace makar
