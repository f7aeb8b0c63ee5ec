// Tasks by metrics, as in HELM (Liang et al., 2022): a row per task (scenario), a column per metric.
#pragma once
#include "eval/runner.h"
#include "lexical/toxicity.h"

namespace makar {

struct MatrixOptions {
  EvalOptions eval;
  const ToxicityClassifier* toxicity = nullptr;  // null: no column of toxicity
};

// The columns of the matrix, in order.
struct MatrixColumn {
  const char* name;
  bool higher_is_better;
};
const std::vector<MatrixColumn>& matrix_columns();

// A row: {"scenario", "metric", "documents", COLUMN: value or null...}.
//   accuracy     the task's first metric that is a mean and better when higher, else its first one
//   calibration  expected calibration error, of multiple choice
//   robustness   accuracy with the worst value of each document over perturbations that keep the meaning
//   fairness     the same over perturbations of the people mentioned
//   bias         for stereotype metrics: the distance of the score from neutral; for generated texts: the
//                distance of the share of female words among gendered ones from one half; both 0 to 1
//   toxicity     share of generated texts with a toxicity of 0.5 or more
//   efficiency   bytes of prompts and answers per document: unlike time, the same in every run
Result<Json> run_scenario(EvalModel& model, const EvalTask& task, const MatrixOptions& options,
                          EvalCache& cache);
Json matrix_json(const std::string& name, const std::vector<Json>& rows, const MatrixOptions& options,
                 const Json& model);

// Reads and checks a matrix file.
Result<Json> parse_matrix(const std::string& text, const std::string& place);
Result<Json> read_matrix(const std::string& path);

// One table for all models: scenario, model, columns; then win rates by column and overall: the share of
// other models that a model beats on a scenario, ties counting half.
std::string matrix_table(const std::vector<Json>& matrices);
Json matrix_win_rates(const std::vector<Json>& matrices);
// A heat map: green is better. Rows are scenarios, and models within them.
std::string matrix_svg(const std::vector<Json>& matrices);

}  // namespace makar
