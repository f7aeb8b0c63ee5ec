// Values of metrics, choices and answers per document, from the samples of a run.
#pragma once
#include <map>

#include "eval/runner.h"

namespace makar {

// Documents of all subtasks of a task, by "subtask/doc_id", in the order of the run.
struct DocumentValue {
  std::string id;
  MetricValue value;
  const Json* sample = nullptr;
};
// Values of a metric after a filter; documents that the metric leaves out are absent.
std::vector<DocumentValue> document_values(const std::vector<TaskResult>& subtasks, const std::string& metric,
                                           const std::string& filter);

// The most probable choice of each document of multiple_choice.
std::map<std::string, size_t> chosen_choices(const std::vector<TaskResult>& subtasks);
// The generated answers of each document, unfiltered.
std::map<std::string, std::vector<std::string>> generated_answers(const std::vector<TaskResult>& subtasks);
// The number of documents in both runs, and of those with the same choice or the same first answer.
struct SameShare {
  int64_t same = 0, all = 0;
};
SameShare same_answers(const std::vector<TaskResult>& a, const std::vector<TaskResult>& b);

// {"value", "low", "high", "n"} with a 95 % interval: Wilson's for rates (all values 0 or 1), the bootstrap's
// for means, and from the standard error for corpus scores. `value` is null without documents.
Json with_interval(const MetricInfo& metric, const std::vector<MetricValue>& values);
Json rate_with_interval(int64_t hits, int64_t all);
Json mean_with_interval(const std::vector<double>& values);

// The value of the document's field that metadata.group_field names, as text; empty if there is none.
std::string group_of(const EvalTask& task, const Json& document);

}  // namespace makar
