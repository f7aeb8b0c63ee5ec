// The metrics of tasks, by lm-eval's names and rules.
#pragma once
#include "eval/question.h"

namespace makar {

// How values of documents become the score of a task.
enum class Aggregation {
  kMean,        // of the first numbers
  kPerplexity,  // exp(-sum of the first / sum of the second)
  kBits         // -sum of the first / sum of the second / ln 2
};
struct TaskMetric {
  const char* name;
  OutputType output;
  Aggregation aggregation;
  bool higher_is_better;
};
const TaskMetric& task_metric(OutputType output, const std::string& name);

struct MetricValue {
  double value = 0, weight = 1;
};
// The value of a document. `responses`: of multiple_choice one [logprob, is_greedy] per choice; of
// loglikelihood and loglikelihood_rolling one of them; of generate_until the filtered answer.
MetricValue document_metric(const MetricOptions& metric, OutputType output, const Question& question,
                            const Json& responses);

struct TaskScore {
  double value = 0;
  std::optional<double> error;  // standard error of a mean of two or more documents
};
TaskScore aggregate(const TaskMetric& metric, const std::vector<MetricValue>& values);

}  // namespace makar
