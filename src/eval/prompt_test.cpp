#include "eval/prompt_test.h"

#include <algorithm>
#include <cmath>

#include "base/version.h"
#include "eval/document_values.h"

namespace makar {
namespace {

constexpr size_t kMaxRegressionBytes = size_t{256} << 20;

}  // namespace

Result<VariantValues> variant_values(const EvalTask& task, const std::vector<TaskResult>& subtasks) {
  for (const MetricOptions& one : task.metrics) {
    const MetricInfo& metric = task_metric(task.output, one.name);
    if (metric.aggregation != Aggregation::kMean || one.name == "words") continue;
    VariantValues out;
    const std::string& filter = task.filters[0].name;
    out.name = task.name, out.metric = one.title() + "," + filter,
    out.higher_is_better = metric.higher_is_better;
    std::map<std::string, int64_t> seen;
    double sum = 0;
    for (const DocumentValue& value : document_values(subtasks, one.title(), filter)) {
      const std::string hash = (*value.sample)["doc_hash"].get<std::string>().substr(0, 16);
      const int64_t repeats = seen[hash]++;
      out.values[repeats == 0 ? hash : fmt::format("{}-{}", hash, repeats)] = value.value.value;
      sum += value.value.value;
    }
    if (out.values.empty()) return error_at(task.name, "no document was evaluated");
    out.score = sum / static_cast<double>(out.values.size());
    return out;
  }
  return error_of(Error::Kind::kUnsupported, task.name,
                  "has no metric that is a mean over documents, which a paired test needs");
}

bool VariantTest::worse(bool higher_is_better, double level) const {
  const double change = (second - first) * (higher_is_better ? 1 : -1);
  const double p = mcnemar ? mcnemar->exact_p : bootstrap.p;
  return change < 0 && p < level;
}

Result<VariantTest> test_variants(const VariantValues& first, const VariantValues& second,
                                  const ResampleOptions& options) {
  std::vector<double> a, b;
  for (const auto& [id, value] : first.values)
    if (const auto at = second.values.find(id); at != second.values.end())
      a.push_back(value), b.push_back(at->second);
  if (a.empty())
    return error_at(second.name, "has no document in common with {}; both must use the same data",
                    first.name);
  VariantTest out;
  out.documents = a.size();
  std::vector<bool> right_a, right_b;
  bool binary = true;
  for (size_t i = 0; i < a.size(); ++i) {
    out.first += a[i] / static_cast<double>(a.size()), out.second += b[i] / static_cast<double>(a.size());
    const double change = (b[i] - a[i]) * (first.higher_is_better ? 1 : -1);
    ++(change > 0 ? out.wins : change < 0 ? out.losses : out.ties);
    for (const double one : {a[i], b[i]}) binary = binary && (one == 0 || one == 1);
    right_a.push_back(a[i] == 1), right_b.push_back(b[i] == 1);
  }
  if (binary) out.mcnemar = mcnemar(right_a, right_b);
  std::vector<double> both = std::move(a);
  both.insert(both.end(), b.begin(), b.end());
  out.bootstrap = paired_bootstrap(evaluation_of_mean("", "", std::move(both)), options);
  return out;
}

Json test_json(const VariantValues& first, const VariantValues& second, const VariantTest& test) {
  return {{"first", {{"task", first.name}, {"score", test.first}}},
          {"second", {{"task", second.name}, {"score", test.second}}},
          {"metric", first.metric},
          {"higher_is_better", first.higher_is_better},
          {"documents", test.documents},
          {"wins", test.wins},
          {"ties", test.ties},
          {"losses", test.losses},
          {"difference", test.second - test.first},
          {"interval",
           {{"low", test.bootstrap.interval.low}, {"high", test.bootstrap.interval.high}, {"level", 0.95}}},
          {"p", test.bootstrap.p},
          {"mcnemar_p", test.mcnemar ? Json(test.mcnemar->exact_p) : Json()}};
}

Json regression_json(const VariantValues& values, const Json& model) {
  return {{"task", values.name},
          {"metric", values.metric},
          {"higher_is_better", values.higher_is_better},
          {"score", values.score},
          {"values", values.values},
          {"model_args", model},
          {"makar_version", kMakarVersion}};
}

Result<VariantValues> parse_regression(const std::string& text, const std::string& place) {
  MAKAR_TRY(const Json json, parse_json(text, place, {kMaxRegressionBytes, 32}));
  const auto has = [&](const char* key, auto kind) { return json.contains(key) && (json[key].*kind)(); };
  if (!json.is_object() || !has("task", &Json::is_string) || !has("metric", &Json::is_string) ||
      !has("values", &Json::is_object))
    return error_at(
        place,
        "is not a regression file: expected an object with 'task', 'metric' and 'values', as makar "
        "eval ab --save writes it");
  VariantValues out;
  out.name = json["task"], out.metric = json["metric"];
  if (has("higher_is_better", &Json::is_boolean)) out.higher_is_better = json["higher_is_better"];
  double sum = 0;
  for (const auto& [id, value] : json["values"].items()) {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      return error_at(place, "the value of document '{}' is not a finite number", id.substr(0, 100));
    sum += out.values[id] = value;
  }
  if (out.values.empty()) return error_at(place, "values: has no document");
  out.score = sum / static_cast<double>(out.values.size());
  return out;
}

Result<EvalTask> changed_task(const EvalTask& task, const Json& changes, const std::string& name) {
  Json file = task.config;
  file.update(changes);
  file["task"] = name;
  return parse_task(file.dump(), task.place + " with changes");
}

}  // namespace makar
