// makar metrics: one function for each kind of input, shared options, and how results are printed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "metrics/resample.h"

namespace makar {

struct MetricCommand {
  const char* name;
  const char* summary;
  int (*run)(const std::string& name, const std::vector<std::string>& arguments);
  const char* group;
};

int run_text_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_reference_free_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_label_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_span_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_probability_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_number_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_agreement_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_win_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_pass_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_fairness_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_representation_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_ranking_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_bert_score(const std::string& name, const std::vector<std::string>& arguments);
int run_learned_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_grammaticality_metric(const std::string& name, const std::vector<std::string>& arguments);
int run_perplexity_metric(const std::string& name, const std::vector<std::string>& arguments);

// Options of every metric: resampling and output.
struct MetricOutput {
  ResampleOptions resample;
  int64_t seed = 12345;
  bool json = false, each = false;
  void declare(Options& options);
  Status check();  // an error is bad usage (exit code 2)
};

constexpr const char* kTruthHelp = "true labels, in the same order";

// The files of the hypotheses, one per system, and of the references.
struct MetricFiles {
  std::vector<std::string> hyp, ref;
  void declare(Options& options, const char* hyp_help, const char* ref_help);
};

// Declares the options of the output last and parses the arguments; returns an exit code if the command ends
// here.
std::optional<int> parse_metric(Options& options, MetricOutput& output,
                                const std::vector<std::string>& arguments);

// Evaluates the hypotheses of the given systems, concatenated. Called with each system, and with two systems
// to test their difference.
using Evaluate = std::function<Result<Evaluation>(const std::vector<std::string>& systems)>;

// Prints the score with its interval. With several systems: each one, and tests of the difference to the
// first.
int report_metric(const std::vector<std::string>& systems, const Evaluate& evaluate,
                  const MetricOutput& output);

// The reliability diagram of an evaluation by evaluate_probabilities, as SVG.
std::string calibration_plot(const Evaluation& e);

}  // namespace makar
