// Results as lm-eval writes them: a JSON file, sample lines, and a table. They have no times, so the same run
// gives the same bytes.
#pragma once
#include "eval/runner.h"

namespace makar {

// Means over subtasks, weighted by documents, with the pooled standard error: of the whole task, then of each
// group. Empty for a task without subtasks.
std::vector<TaskResult> group_results(const EvalTask& task, const std::vector<TaskResult>& subtasks);

struct EvaluatedTask {
  std::vector<TaskResult> subtasks, groups;
};
Json results_json(const std::vector<EvaluatedTask>& tasks, const EvalOptions& options, const Json& model);
// Lines "| task | version | filter | n-shot | metric | value | stderr |".
std::string results_table(const std::vector<EvaluatedTask>& tasks);

// FILE.json, or results.json in a folder; samples_TASK.jsonl and the cache are next to it.
struct OutputFiles {
  explicit OutputFiles(const std::string& output);
  std::string results, folder;
  std::string samples(const std::string& task) const { return folder + "/samples_" + task + ".jsonl"; }
  std::string cache() const { return results + ".cache"; }
};
Status write_results(const OutputFiles& files, const std::vector<EvaluatedTask>& tasks, const Json& results,
                     bool samples);

}  // namespace makar
