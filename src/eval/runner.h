// Runs a task: questions in batches, responses from the cache or the model, metrics.
#pragma once
#include <functional>

#include "eval/cache.h"
#include "eval/model.h"
#include "eval/task_metrics.h"

namespace makar {

struct EvalOptions {
  int64_t num_fewshot = -1;   // -1: the task's own number
  int64_t limit = 0;          // max documents per task; 0: all
  uint64_t seed = 0;          // of few-shot examples and sampled answers
  PromptStyle style;          // text, or a conversation
  std::string data;           // the folder of the datasets
  size_t batch = 64;          // documents per batch, at most
  bool run_programs = false;  // allow metrics that run answers as programs
  bool samples = false;       // store every document with its responses in TaskResult::samples
  std::function<void(const std::string& task, size_t done, size_t total)> progress = {};
};

struct MetricResult {
  std::string metric, filter;
  TaskScore score;
  bool higher_is_better = true;
  bool mean = true;  // over documents
};
struct TaskResult {
  std::string name, group;  // group: of a subtask
  Json config, version;
  int64_t shots = 0;
  size_t documents = 0, evaluated = 0;  // documents: in the data; evaluated: up to the limit
  std::vector<MetricResult> scores;
  std::vector<Json> samples;
};

// One result per subtask; a task without subtasks has one result.
Result<std::vector<TaskResult>> run_task(EvalModel& model, const EvalTask& task, const EvalOptions& options,
                                         EvalCache& cache);

}  // namespace makar
