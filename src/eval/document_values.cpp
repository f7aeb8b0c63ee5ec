#include "eval/document_values.h"

#include <algorithm>
#include <cmath>

#include "metrics/resample.h"

namespace makar {
namespace {

std::string id_of(const TaskResult& subtask, const Json& sample) {
  return fmt::format("{}/{}", subtask.name, sample["doc_id"].get<int64_t>());
}

MetricValue value_of(const Json& json) {
  MetricValue out;
  if (json.is_number()) out.value = json;
  if (json.is_array() && json.size() == 2) out.value = json[0], out.weight = json[1];
  if (json.is_object()) {
    out.answer = json.value("answer", "");
    out.references = json.value("references", std::vector<std::string>{});
  }
  return out;
}

// Calls `use` once per document.
void each_document(const std::vector<TaskResult>& subtasks,
                   const std::function<void(const std::string& id, const Json& sample)>& use) {
  for (const TaskResult& subtask : subtasks) {
    int64_t last = -1;
    for (const Json& sample : subtask.samples) {
      const int64_t document = sample["doc_id"];
      if (document != last) use(id_of(subtask, sample), sample);
      last = document;
    }
  }
}

}  // namespace

std::vector<DocumentValue> document_values(const std::vector<TaskResult>& subtasks, const std::string& metric,
                                           const std::string& filter) {
  std::vector<DocumentValue> out;
  for (const TaskResult& subtask : subtasks)
    for (const Json& sample : subtask.samples)
      if (sample["filter"] == filter && sample.contains(metric))
        out.push_back({id_of(subtask, sample), value_of(sample[metric]), &sample});
  return out;
}

std::map<std::string, size_t> chosen_choices(const std::vector<TaskResult>& subtasks) {
  std::map<std::string, size_t> out;
  each_document(subtasks, [&](const std::string& id, const Json& sample) {
    size_t best = 0;
    const Json& resps = sample["resps"];
    for (size_t i = 0; i < resps.size(); ++i) {
      if (!resps[i][0].is_array()) return;
      if (resps[i][0][0].get<double>() > resps[best][0][0].get<double>()) best = i;
    }
    out[id] = best;
  });
  return out;
}

std::map<std::string, std::vector<std::string>> generated_answers(const std::vector<TaskResult>& subtasks) {
  std::map<std::string, std::vector<std::string>> out;
  each_document(subtasks, [&](const std::string& id, const Json& sample) {
    for (const Json& one : sample["resps"])
      if (one[0].is_string()) out[id].push_back(one[0]);
  });
  return out;
}

SameShare same_answers(const std::vector<TaskResult>& a, const std::vector<TaskResult>& b) {
  SameShare out;
  const auto choices = chosen_choices(a), others = chosen_choices(b);
  for (const auto& [id, choice] : choices)
    if (const auto at = others.find(id); at != others.end()) ++out.all, out.same += at->second == choice;
  const auto texts = generated_answers(a), other_texts = generated_answers(b);
  for (const auto& [id, answers] : texts)
    if (const auto at = other_texts.find(id); at != other_texts.end())
      ++out.all, out.same += at->second[0] == answers[0];
  return out;
}

Json rate_with_interval(int64_t hits, int64_t all) {
  if (all == 0) return {{"value", Json()}, {"low", Json()}, {"high", Json()}, {"n", 0}};
  const Interval interval = wilson_interval(hits, all);
  return {{"value", interval.mean}, {"low", interval.low}, {"high", interval.high}, {"n", all}};
}

Json mean_with_interval(const std::vector<double>& values) {
  const bool rates = std::all_of(values.begin(), values.end(), [](double v) { return v == 0 || v == 1; });
  if (rates)
    return rate_with_interval(std::count(values.begin(), values.end(), 1.0),
                              static_cast<int64_t>(values.size()));
  const Evaluation mean = evaluation_of_mean("mean", "", values);
  const auto interval = bootstrap_interval(mean, {});
  return {{"value", mean.score}, {"low", interval->low}, {"high", interval->high}, {"n", values.size()}};
}

Json with_interval(const MetricInfo& metric, const std::vector<MetricValue>& values) {
  if (metric.aggregation == Aggregation::kMean) {
    std::vector<double> plain;
    for (const MetricValue& one : values) plain.push_back(one.value);
    return mean_with_interval(plain);
  }
  const TaskScore score = aggregate(metric, values);
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  const double margin = kZ95 * score.error.value_or(0);
  return {{"value", number(score.value)},
          {"low", score.error ? number(score.value - margin) : Json()},
          {"high", score.error ? number(score.value + margin) : Json()},
          {"n", values.size()}};
}

std::string group_of(const EvalTask& task, const Json& document) {
  const Json metadata =
      task.config.is_object() && task.config.contains("metadata") ? task.config["metadata"] : Json();
  if (!metadata.is_object() || !metadata.contains("group_field") || !metadata["group_field"].is_string())
    return "";
  const std::string field = metadata["group_field"];
  if (!document.is_object() || !document.contains(field)) return "";
  return document[field].is_string() ? document[field].get<std::string>() : document[field].dump();
}

}  // namespace makar
