// Two or more results of evaluations side by side, with tests of their differences.
#pragma once
#include <map>

#include "eval/results.h"
#include "metrics/resample.h"

namespace makar {

// A results file and the samples next to it.
struct EvaluatedModel {
  std::string name;
  Json results;  // the content of results.json
  std::string folder;
};
Result<EvaluatedModel> parse_evaluated_model(const std::string& text, const std::string& place);
// A folder with results.json, or a file.
Result<EvaluatedModel> read_evaluated_model(const std::string& path);

// One score of all models. Differences are relative to the first model.
struct ComparedScore {
  std::string task, metric;  // metric: "acc,none"
  bool higher_is_better = true;
  struct ModelScore {
    double value = 0;
    std::optional<double> error;  // standard error
    // Compared with the first model; not set for the first.
    double difference = 0;
    std::optional<double> low, high, p;  // interval of the difference, two-sided p
    std::optional<double> mcnemar;       // p of McNemar's test, if all documents score 0 or 1
    std::string test = {};               // "bootstrap" on the same documents, "normal" from standard errors
  };
  std::vector<ModelScore> models;
};

// Scores that all models have. Samples of the same documents are compared in pairs; without them the interval
// follows from the standard errors, as if the documents were independent.
Result<std::vector<ComparedScore>> compare_models(const std::vector<EvaluatedModel>& models,
                                                  const ResampleOptions& options);
Json comparison_json(const std::vector<EvaluatedModel>& models, const std::vector<ComparedScore>& scores);
std::string comparison_table(const std::vector<EvaluatedModel>& models,
                             const std::vector<ComparedScore>& scores);
// A chart of scores with 95 % intervals, one row per score.
std::string comparison_svg(const std::vector<EvaluatedModel>& models,
                           const std::vector<ComparedScore>& scores);
// For each model the share of (score, other model) pairs that it wins, ties counting half: HELM's win rate.
std::vector<double> win_rates(const std::vector<ComparedScore>& scores, size_t models);

}  // namespace makar
