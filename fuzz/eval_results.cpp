// Any bytes as a results file, a matrix and a regression file: values or located errors, and reports of
// valid files.
#include "eval/compare.h"
#include "eval/matrix.h"
#include "eval/prompt_test.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(eval_results) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto names_file = [](const Error& error) {
    check(error.text().find("fuzz.json") != std::string::npos, "an error names its file");
  };
  const auto results = parse_evaluated_model(text, "fuzz.json");
  if (!results.ok()) names_file(results.error());
  if (results.ok()) {
    const auto scores = compare_models({*results, *results}, {});
    if (scores.ok()) {
      (void)comparison_table({*results, *results}, *scores);
      (void)comparison_svg({*results, *results}, *scores);
    }
  }
  const auto matrix = parse_matrix(text, "fuzz.json");
  if (!matrix.ok()) names_file(matrix.error());
  if (matrix.ok() && (*matrix)["scenarios"].size() < 100) {
    (void)matrix_table({*matrix, *matrix});
    (void)matrix_svg({*matrix, *matrix});
  }
  const auto regression = parse_regression(text, "fuzz.json");
  if (!regression.ok()) names_file(regression.error());
  if (regression.ok() && regression->values.size() < 1000) {
    ResampleOptions options;
    options.resamples = 10;
    check(test_variants(*regression, *regression, options).ok(), "a file is comparable with itself");
  }
  return 0;
}
