// A test of two prompts of a task on the same documents, and a regression file: the values of every document
// under a prompt, to find out later whether a change of model or prompt made them worse.
#pragma once
#include "eval/runner.h"
#include "metrics/resample.h"

namespace makar {

// The values of one variant of a task, per document.
struct VariantValues {
  std::string name;    // of the task
  std::string metric;  // "exact_match,none"
  bool higher_is_better = true;
  std::map<std::string, double> values;  // by document: its hash, and a number if documents repeat
  double score = 0;
};
// The values of the first metric that is a mean. Fails if the task has none.
Result<VariantValues> variant_values(const EvalTask& task, const std::vector<TaskResult>& subtasks);

struct VariantTest {
  size_t documents = 0;                    // that both variants have
  double first = 0, second = 0;            // means over these documents
  int64_t wins = 0, ties = 0, losses = 0;  // of the second variant
  PairedTest bootstrap;
  std::optional<McNemar> mcnemar;  // if all values are 0 or 1
  // Whether the second variant is worse and p is below `level`.
  bool worse(bool higher_is_better, double level) const;
};
// Fails if the variants have no document in common.
Result<VariantTest> test_variants(const VariantValues& first, const VariantValues& second,
                                  const ResampleOptions& options);
Json test_json(const VariantValues& first, const VariantValues& second, const VariantTest& test);

Json regression_json(const VariantValues& values, const Json& model);
Result<VariantValues> parse_regression(const std::string& text, const std::string& place);

// A task with other prompt keys: `changes` replaces keys of its file, such as {"doc_to_text": "..."}.
Result<EvalTask> changed_task(const EvalTask& task, const Json& changes, const std::string& name);

}  // namespace makar
