// The metrics of tasks, by lm-eval's names and rules: the value of one document, and the score of a task.
#pragma once
#include "eval/question.h"

namespace makar {

// How values of documents become the score of a task.
enum class Aggregation {
  kMean,        // of the values
  kPerplexity,  // exp(-sum of values / sum of weights)
  kBits,        // -sum of values / sum of weights / ln 2
  kCorpus       // a function of all documents, chosen by the name of the metric
};
struct MetricInfo {
  const char* name;
  OutputType output;
  Aggregation aggregation;
  bool higher_is_better;
};
const MetricInfo& task_metric(OutputType output, const std::string& name);

struct MetricValue {
  double value = 0, weight = 1;  // kCorpus: two numbers of the metric, such as prediction and target
  // kCorpus of texts: the answer and its references.
  std::string answer = {};
  std::vector<std::string> references = {};
  Json json() const;  // for the samples file
};

// The value of a document; nullopt where the metric's `where` is false. `responses`: for multiple_choice one
// [logprob, is_greedy] per choice; for loglikelihood and loglikelihood_rolling a single one; for
// generate_until the filtered answers.
Result<std::optional<MetricValue>> document_metric(const MetricOptions& metric, OutputType output,
                                                   const Question& question, const Json& responses,
                                                   const Json& document);
// document_metric of multiple_choice (choice_metrics.cpp) and of generate_until (answer_metrics.cpp).
Result<MetricValue> choice_metric(const MetricOptions& metric, const Question& question,
                                  const Json& responses, const Json& document);
Result<MetricValue> answer_metric(const MetricOptions& metric, const Question& question,
                                  const std::vector<std::string>& answers, const Json& document);

struct TaskScore {
  double value = 0;             // NaN where it is undefined, such as a correlation with a constant
  std::optional<double> error;  // standard error of kMean; of kCorpus by the bootstrap
};
// Half the width of a 95 % interval in standard errors, for a normal distribution.
constexpr double kZ95 = 1.959964;
TaskScore aggregate(const MetricInfo& metric, const std::vector<MetricValue>& values);

}  // namespace makar
