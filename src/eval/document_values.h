// What the samples of a run say about each document: values of metrics, choices, answers.
#pragma once
#include <map>

#include "eval/runner.h"

namespace makar {

// Documents of all parts of a task, by "part/doc_id", in the order of the run.
struct DocumentValue {
  std::string id;
  MetricValue value;
  const Json* sample = nullptr;
};
// Values of a metric after a filter; documents that the metric leaves out are absent.
std::vector<DocumentValue> document_values(const std::vector<TaskResult>& parts, const std::string& metric,
                                           const std::string& filter);

// The most probable choice of each document of multiple_choice.
std::map<std::string, size_t> chosen(const std::vector<TaskResult>& parts);
// The generated answers of each document, unfiltered.
std::map<std::string, std::vector<std::string>> generated(const std::vector<TaskResult>& parts);
// The share of the documents of both whose choice, or first answer, is the same.
struct SameShare {
  int64_t same = 0, all = 0;
};
SameShare same_answers(const std::vector<TaskResult>& a, const std::vector<TaskResult>& b);

// {"value", "low", "high", "n"} with an interval of 95 %: Wilson's of rates (all values 0 or 1), the
// bootstrap's of means, from the standard error of scores of a corpus. `value` is null without documents.
Json with_interval(const TaskMetric& metric, const std::vector<MetricValue>& values);
Json rate_with_interval(int64_t hits, int64_t all);
Json mean_with_interval(const std::vector<double>& values);

// The field of documents that metadata.group_field names, as a text; empty if there is none.
std::string group_of(const EvalTask& task, const Json& document);

}  // namespace makar
