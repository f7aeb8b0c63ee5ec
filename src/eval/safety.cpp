#include "eval/safety.h"

#include <algorithm>

#include "base/version.h"
#include "eval/document_values.h"
#include "eval/perturb.h"

namespace makar {
namespace {

using Subtasks = std::vector<TaskResult>;

bool has_tag(const EvalTask& task, const std::string& tag) {
  if (!task.config.is_object() || !task.config.contains("tag")) return false;
  const Json& tags = task.config["tag"];
  if (tags.is_string()) return tags == tag;
  return tags.is_array() && std::find(tags.begin(), tags.end(), Json(tag)) != tags.end();
}

bool measures_refusals(const EvalTask& task) {
  return std::any_of(task.metrics.begin(), task.metrics.end(),
                     [](const MetricOptions& one) { return one.name == "refusal"; });
}

class SafetyRun {
 public:
  SafetyRun(EvalModel& model, const SafetyOptions& options, EvalCache& cache)
      : model_(model), o_(options), cache_(cache) {}

  Status add(const EvalTask& task) {
    MAKAR_TRY(const Subtasks plain, run_perturbed(task, ""));
    if (has_tag(task, "toxicity") && o_.classifier) MAKAR_RETURN_IF_ERROR(add_toxicity(task, plain));
    if (measures_refusals(task)) add_scores("refusals", task, plain);
    if (task.output != OutputType::kMultipleChoice) return Done{};
    add_scores("bias", task, plain);
    if (!task.text.empty()) MAKAR_RETURN_IF_ERROR(add_consistency(task, plain));
    return Done{};
  }

  Json report = Json::object();

 private:
  Result<Subtasks> run_perturbed(const EvalTask& task, const std::string& perturbation) {
    EvalOptions eval = o_.eval;
    eval.samples = true, eval.style.perturbation = perturbation;
    return run_task(model_, task, eval, cache_);
  }

  // Each metric of the task for all documents and for each group.
  void add_scores(const char* section, const EvalTask& task, const Subtasks& subtasks) {
    for (const MetricOptions& one : task.metrics) {
      std::map<std::string, std::vector<MetricValue>> groups;
      for (const DocumentValue& value : document_values(subtasks, one.title(), task.filters[0].name)) {
        groups[""].push_back(value.value);
        const std::string group = group_of(task, (*value.sample)["doc"]);
        if (!group.empty()) groups[group].push_back(value.value);
      }
      for (const auto& [group, values] : groups) {
        Json row = {{"task", task.name}, {"metric", one.title()}, {"group", group.empty() ? "all" : group}};
        row.update(with_interval(task_metric(task.output, one.name), values));
        report[section].push_back(row);
      }
    }
  }

  // Toxicities of the answers to each prompt.
  std::map<std::string, std::vector<double>> toxicities(const Subtasks& subtasks) const {
    std::map<std::string, std::vector<double>> out;
    for (const auto& [id, answers] : generated_answers(subtasks))
      for (const std::string& answer : answers) out[id].push_back(o_.classifier->toxicity(answer));
    return out;
  }

  Status add_toxicity(const EvalTask& task, const Subtasks& plain) {
    std::map<std::string, std::string> group_by_id;
    for (const TaskResult& subtask : plain)
      for (const Json& sample : subtask.samples)
        group_by_id[fmt::format("{}/{}", subtask.name, sample["doc_id"].get<int64_t>())] =
            group_of(task, sample["doc"]);
    std::map<std::string, std::vector<double>> max, mean;
    const auto scores = toxicities(plain);
    for (const auto& [id, values] : scores) {
      double sum = 0;
      for (const double one : values) sum += one;
      const std::string group = group_by_id[id];
      for (const std::string& name :
           group.empty() ? std::vector<std::string>{"all"} : std::vector{std::string("all"), group}) {
        max[name].push_back(*std::max_element(values.begin(), values.end()));
        mean[name].push_back(sum / static_cast<double>(values.size()));
      }
    }
    for (const auto& [group, values] : max) {
      const auto toxic = std::count_if(values.begin(), values.end(),
                                       [&](double one) { return one >= o_.control.threshold; });
      report["toxicity"].push_back(
          {{"task", task.name},
           {"group", group},
           {"mean", mean_with_interval(mean[group])},
           {"expected_maximum", mean_with_interval(values)},
           {"toxic_prompts", rate_with_interval(toxic, static_cast<int64_t>(values.size()))}});
    }
    MAKAR_RETURN_IF_ERROR(add_swaps(task, scores));
    return add_controls(task, plain);
  }

  // The change of the mean toxicity of a prompt when the people mentioned are exchanged.
  Status add_swaps(const EvalTask& task, const std::map<std::string, std::vector<double>>& before) {
    for (const std::string& kind : fairness_perturbations()) {
      MAKAR_TRY(const Subtasks changed, run_perturbed(task, kind));
      std::vector<double> differences;
      for (const auto& [id, values] : toxicities(changed)) {
        const auto at = before.find(id);
        if (at == before.end()) continue;
        double sum = 0;
        for (const double one : values) sum += one / static_cast<double>(values.size());
        for (const double one : at->second) sum -= one / static_cast<double>(at->second.size());
        differences.push_back(sum);
      }
      Json row = {{"task", task.name}, {"perturbation", kind}};
      row.update(mean_with_interval(differences));
      report["toxicity_difference"].push_back(row);
    }
    return Done{};
  }

  Status add_controls(const EvalTask& task, const Subtasks& plain) {
    std::vector<UntilRequest> requests;
    for (const TaskResult& subtask : plain)
      for (const Json& sample : subtask.samples) {
        UntilRequest request;
        const Json& context = sample["arguments"]["gen_args_0"]["arg_0"];
        if (context.is_string())
          request.prompt = context;
        else
          request.messages = context;
        request.until = task.until, request.max_tokens = task.max_gen_toks;
        request.temperature = task.temperature, request.top_p = task.top_p, request.seed = o_.eval.seed;
        requests.push_back(std::move(request));
      }
    for (const std::string& mode : o_.controls) {
      ControlOptions control = o_.control;
      control.mode = mode;
      MAKAR_TRY(const auto answers, controlled_answers(model_, requests, *o_.classifier, control));
      MAKAR_TRY(const Json summary, control_summary(model_, requests, answers, control.threshold));
      Json row = {{"task", task.name}, {"mode", mode}};
      row.update(summary);
      report["control"].push_back(row);
    }
    return Done{};
  }

  Status add_consistency(const EvalTask& task, const Subtasks& plain) {
    for (const std::string& kind : perturbations()) {
      MAKAR_TRY(const Subtasks changed, run_perturbed(task, kind));
      const SameShare share = same_answers(plain, changed);
      Json row = {{"task", task.name}, {"perturbation", kind}};
      row.update(rate_with_interval(share.same, share.all));
      report["consistency"].push_back(row);
    }
    return Done{};
  }

  EvalModel& model_;
  const SafetyOptions& o_;
  EvalCache& cache_;
};

std::string cell_text(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.4f}", value.get<double>());
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string with_bounds(const Json& value) {
  if (value["low"].is_null()) return cell_text(value["value"]);
  return fmt::format("{} ({} to {})", cell_text(value["value"]), cell_text(value["low"]),
                     cell_text(value["high"]));
}

// The rows of a section as a Markdown table; values with an interval are one column.
std::string section_table(const Json& rows) {
  std::string head, line, body;
  for (const auto& [key, value] : rows[0].items())
    if (key != "low" && key != "high") head += "| " + key + " ", line += "|---";
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (key == "low" || key == "high") continue;
      const bool bounded = value.is_object() || (key == "value" && row.contains("low"));
      body += "| " + (bounded ? with_bounds(value.is_object() ? value : row) : cell_text(value)) + " ";
    }
    body += "|\n";
  }
  return head + "|\n" + line + "|\n" + body;
}

}  // namespace

Result<Json> safety_report(EvalModel& model, const std::vector<EvalTask>& tasks, const SafetyOptions& options,
                           EvalCache& cache) {
  if (!options.controls.empty() && !options.classifier)
    return error_at("--control", "needs --classifier, which measures toxicity");
  SafetyRun run(model, options, cache);
  for (const EvalTask& task : tasks) MAKAR_RETURN_IF_ERROR(run.add(task));
  run.report["config"] = {{"model_args", model.identity()},
                          {"classifier", options.classifier ? Json(options.classifier->version()) : Json()},
                          {"threshold", options.control.threshold},
                          {"limit", options.eval.limit > 0 ? Json(options.eval.limit) : Json()},
                          {"seed", options.eval.seed}};
  run.report["makar_version"] = kMakarVersion;
  return run.report;
}

std::string safety_markdown(const Json& report) {
  struct Section {
    const char *key, *title;
  };
  std::string out = "# Safety and fairness\n";
  for (const Section& section : {Section{"toxicity", "Toxicity of answers"},
                                 {"toxicity_difference", "Toxicity when people are exchanged"},
                                 {"control", "Control of toxicity"},
                                 {"bias", "Bias suites by group"},
                                 {"refusals", "Refusals"},
                                 {"consistency", "Consistency under changes of the question"}})
    if (report.contains(section.key) && !report[section.key].empty())
      out += fmt::format("\n## {}\n\n{}", section.title, section_table(report[section.key]));
  return out;
}

}  // namespace makar
