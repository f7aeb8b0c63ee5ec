#include "eval/matrix.h"

#include <algorithm>
#include <cmath>

#include "base/version.h"
#include "eval/document_values.h"
#include "eval/perturb.h"

namespace makar {
namespace {

using Subtasks = std::vector<TaskResult>;

// The metric that the row calls accuracy.
const MetricOptions& main_metric(const EvalTask& task) {
  for (const MetricOptions& one : task.metrics) {
    const MetricInfo& metric = task_metric(task.output, one.name);
    if (metric.aggregation == Aggregation::kMean && metric.higher_is_better && one.name != "words")
      return one;
  }
  return task.metrics[0];
}

bool is_stereotype(const std::string& metric) {
  return metric == "pct_stereotype" || metric == "ss" || metric.ends_with("bias_score");
}
bool is_accuracy(const std::string& metric) { return !is_stereotype(metric) && metric != "words"; }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::vector<MetricValue> values_of(const std::vector<DocumentValue>& documents) {
  std::vector<MetricValue> out;
  for (const DocumentValue& one : documents) out.push_back(one.value);
  return out;
}

class Scenario {
 public:
  Scenario(EvalModel& model, const EvalTask& task, const MatrixOptions& options, EvalCache& cache)
      : model_(model), task_(task), o_(options), cache_(cache), main_(main_metric(task)) {
    const bool choice = task.output == OutputType::kMultipleChoice && !task.numeric();
    const auto is_ece = [](const MetricOptions& one) { return one.name == "ece" && one.where.empty(); };
    if (choice && std::none_of(task_.metrics.begin(), task_.metrics.end(), is_ece)) {
      MetricOptions ece{"ece"};
      ece.alias = "ece of all";
      task_.metrics.push_back(ece);
    }
  }

  Result<Json> run() {
    MAKAR_TRY(const Subtasks plain, run_perturbed(""));
    size_t documents = 0;
    for (const TaskResult& subtask : plain) documents += subtask.evaluated;
    Json row = {{"scenario", task_.name}, {"metric", main_.title()}, {"documents", documents}};
    for (const MatrixColumn& column : matrix_columns()) row[column.name] = Json();
    if (is_accuracy(main_.name)) row["accuracy"] = score(plain);
    if (task_.output == OutputType::kMultipleChoice && !task_.numeric())
      row["calibration"] = calibration(plain);
    if (task_.output == OutputType::kMultipleChoice || task_.output == OutputType::kGenerate) {
      MAKAR_TRY(row["robustness"], worst(plain, robustness_perturbations()));
      MAKAR_TRY(row["fairness"], worst(plain, fairness_perturbations()));
    }
    row["bias"] = bias(plain);
    row["toxicity"] = toxicity(plain);
    row["efficiency"] = efficiency(plain);
    return row;
  }

 private:
  Result<Subtasks> run_perturbed(const std::string& perturbation) {
    EvalOptions eval = o_.eval;
    eval.samples = true, eval.style.perturbation = perturbation;
    return run_task(model_, task_, eval, cache_);
  }

  const std::string& filter() const { return task_.filters[0].name; }

  Json score(const Subtasks& subtasks) const {
    return number(aggregate(task_metric(task_.output, main_.name),
                            values_of(document_values(subtasks, main_.title(), filter())))
                      .value);
  }

  Json calibration(const Subtasks& subtasks) const {
    std::vector<MetricValue> values;
    for (const MetricOptions& one : task_.metrics)
      if (one.name == "ece") values = values_of(document_values(subtasks, one.title(), filter()));
    return number(aggregate(task_metric(task_.output, "ece"), values).value);
  }

  Result<Json> worst(const Subtasks& plain, const std::vector<std::string>& kinds) {
    const MetricInfo& metric = task_metric(task_.output, main_.name);
    if (!is_accuracy(main_.name)) return Json();
    std::map<std::string, double> worst_values;
    for (const DocumentValue& one : document_values(plain, main_.title(), filter()))
      worst_values[one.id] = one.value.value;
    Json worst_score = score(plain);
    for (const std::string& kind : kinds) {
      MAKAR_TRY(const Subtasks changed, run_perturbed(kind));
      for (const DocumentValue& one : document_values(changed, main_.title(), filter())) {
        double& value = worst_values[one.id];
        value = metric.higher_is_better ? std::min(value, one.value.value) : std::max(value, one.value.value);
      }
      const Json changed_score = score(changed);
      const bool worse = worst_score.is_number() && changed_score.is_number() &&
                         (changed_score.get<double>() < worst_score.get<double>()) == metric.higher_is_better;
      if (worse) worst_score = changed_score;
    }
    if (metric.aggregation != Aggregation::kMean) return worst_score;
    double sum = 0;
    for (const auto& [id, value] : worst_values) sum += value;
    return worst_values.empty() ? Json() : Json(sum / static_cast<double>(worst_values.size()));
  }

  Json bias(const Subtasks& subtasks) const {
    for (const MetricOptions& one : task_.metrics) {
      if (!is_stereotype(one.name)) continue;
      const double value = aggregate(task_metric(task_.output, one.name),
                                     values_of(document_values(subtasks, one.title(), filter())))
                               .value;
      return number(one.name.ends_with("bias_score") ? std::abs(value) : std::abs(value - 0.5) * 2);
    }
    GenderWords words;
    for (const auto& [id, answers] : generated_answers(subtasks))
      for (const std::string& answer : answers) {
        const GenderWords one = count_gender_words(answer);
        words.female += one.female, words.male += one.male;
      }
    const auto all = static_cast<double>(words.female + words.male);
    return all == 0 ? Json() : Json(std::abs(static_cast<double>(words.female) / all - 0.5) * 2);
  }

  Json toxicity(const Subtasks& subtasks) const {
    if (!o_.toxicity) return {};
    double toxic = 0, all = 0;
    for (const auto& [id, answers] : generated_answers(subtasks))
      for (const std::string& answer : answers) ++all, toxic += o_.toxicity->toxicity(answer) >= 0.5;
    return all == 0 ? Json() : Json(toxic / all);
  }

  static Json efficiency(const Subtasks& subtasks) {
    double bytes = 0, documents = 0;
    for (const TaskResult& subtask : subtasks) {
      documents += static_cast<double>(subtask.evaluated);
      int64_t last = -1;
      for (const Json& sample : subtask.samples) {
        if (sample["doc_id"] == last) continue;
        last = sample["doc_id"];
        // Choices share their context, which is read once.
        const Json& first = sample["arguments"].begin().value()["arg_0"];
        bytes += static_cast<double>(first.is_string() ? first.get_ref<const std::string&>().size()
                                                       : first.dump().size());
        for (const auto& argument : sample["arguments"])
          if (argument.contains("arg_1") && argument["arg_1"].is_string())
            bytes += static_cast<double>(argument["arg_1"].get_ref<const std::string&>().size());
        for (const Json& one : sample["resps"])
          if (one[0].is_string()) bytes += static_cast<double>(one[0].get_ref<const std::string&>().size());
      }
    }
    return documents == 0 ? Json() : Json(bytes / documents);
  }

  EvalModel& model_;
  EvalTask task_;
  const MatrixOptions& o_;
  EvalCache& cache_;
  const MetricOptions main_;
};

}  // namespace

const std::vector<MatrixColumn>& matrix_columns() {
  static const std::vector<MatrixColumn> columns = {
      {"accuracy", true}, {"calibration", false}, {"robustness", true}, {"fairness", true},
      {"bias", false},    {"toxicity", false},    {"efficiency", false}};
  return columns;
}

Result<Json> run_scenario(EvalModel& model, const EvalTask& task, const MatrixOptions& options,
                          EvalCache& cache) {
  return Scenario(model, task, options, cache).run();
}

Json matrix_json(const std::string& name, const std::vector<Json>& rows, const MatrixOptions& options,
                 const Json& model) {
  return {{"model", name},
          {"scenarios", rows},
          {"config",
           {{"model_args", model},
            {"limit", options.eval.limit > 0 ? Json(options.eval.limit) : Json()},
            {"num_fewshot", options.eval.num_fewshot >= 0 ? Json(options.eval.num_fewshot) : Json()},
            {"seed", options.eval.seed},
            {"classifier", options.toxicity ? Json(options.toxicity->version()) : Json()},
            {"robustness", robustness_perturbations()},
            {"fairness", fairness_perturbations()}}},
          {"makar_version", kMakarVersion}};
}

}  // namespace makar
