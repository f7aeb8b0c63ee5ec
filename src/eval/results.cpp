#include "eval/results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/version.h"

namespace makar {
namespace {

TaskResult combine(const std::string& name, const std::vector<const TaskResult*>& subtasks) {
  TaskResult out;
  out.name = name, out.version = subtasks[0]->version, out.shots = subtasks[0]->shots;
  for (const TaskResult* subtask : subtasks)
    out.documents += subtask->documents, out.evaluated += subtask->evaluated;
  const auto all = static_cast<double>(out.evaluated), groups = static_cast<double>(subtasks.size());
  for (size_t s = 0; s < subtasks[0]->scores.size(); ++s) {
    MetricResult score = subtasks[0]->scores[s];
    if (!score.mean) continue;
    double sum = 0, pooled = 0;
    bool has_errors = all > groups;
    for (const TaskResult* subtask : subtasks) {
      const auto count = static_cast<double>(subtask->evaluated);
      sum += subtask->scores[s].score.value * count;
      has_errors = has_errors && subtask->scores[s].score.error;
      const double error = subtask->scores[s].score.error.value_or(0);
      pooled += (count - 1) * error * error * count;
    }
    score.score.value = sum / all;
    score.score.error.reset();
    if (has_errors) score.score.error = std::sqrt(pooled / (all - groups) / all);
    out.scores.push_back(score);
  }
  return out;
}

Json scores_json(const TaskResult& task) {
  Json out = {{"alias", task.name}};
  for (const MetricResult& one : task.scores) {
    out[one.metric + "," + one.filter] = one.score.value;
    out[one.metric + "_stderr," + one.filter] = one.score.error ? Json(*one.score.error) : Json("N/A");
  }
  return out;
}

}  // namespace

std::vector<TaskResult> group_results(const EvalTask& task, const std::vector<TaskResult>& subtasks) {
  std::vector<TaskResult> out;
  if (task.subtasks.empty()) return out;
  std::vector<const TaskResult*> all;
  std::vector<std::string> groups;
  for (const TaskResult& subtask : subtasks) {
    all.push_back(&subtask);
    if (std::find(groups.begin(), groups.end(), subtask.group) == groups.end())
      groups.push_back(subtask.group);
  }
  out.push_back(combine(task.name, all));
  for (const std::string& group : groups) {
    if (group == task.name) continue;
    std::vector<const TaskResult*> members;
    for (const TaskResult* subtask : all)
      if (subtask->group == group) members.push_back(subtask);
    out.push_back(combine(group, members));
  }
  return out;
}

Json results_json(const std::vector<EvaluatedTask>& tasks, const EvalOptions& options, const Json& model) {
  Json out = {{"results", Json::object()},          {"groups", Json::object()},
              {"group_subtasks", Json::object()},   {"configs", Json::object()},
              {"versions", Json::object()},         {"n-shot", Json::object()},
              {"higher_is_better", Json::object()}, {"n-samples", Json::object()}};
  for (const EvaluatedTask& task : tasks) {
    for (const auto* list : {&task.groups, &task.subtasks})
      for (const TaskResult& one : *list) {
        out["results"][one.name] = scores_json(one);
        out["versions"][one.name] = one.version;
        out["n-shot"][one.name] = one.shots;
        Json higher = Json::object();
        for (const MetricResult& score : one.scores) higher[score.metric] = score.higher_is_better;
        out["higher_is_better"][one.name] = higher;
      }
    for (const TaskResult& group : task.groups) {
      out["groups"][group.name] = scores_json(group);
      Json names = Json::array();
      for (const TaskResult& subtask : task.subtasks)
        if (subtask.group == group.name || &group == &task.groups[0]) names.push_back(subtask.name);
      out["group_subtasks"][group.name] = names;
    }
    for (const TaskResult& subtask : task.subtasks) {
      out["configs"][subtask.name] = subtask.config;
      out["n-samples"][subtask.name] = {{"original", subtask.documents}, {"effective", subtask.evaluated}};
    }
  }
  out["config"] = {{"model", "makar"},
                   {"model_args", model},
                   {"limit", options.limit > 0 ? Json(options.limit) : Json()},
                   {"num_fewshot", options.num_fewshot >= 0 ? Json(options.num_fewshot) : Json()},
                   {"fewshot_seed", options.seed}};
  if (options.style.chat)
    out["config"].update({{"apply_chat_template", true},
                          {"fewshot_as_multiturn", options.style.multiturn},
                          {"system_instruction", options.style.system}});
  if (!options.style.perturbation.empty()) out["config"]["perturbation"] = options.style.perturbation;
  out["makar_version"] = kMakarVersion;
  return out;
}

std::string results_table(const std::vector<EvaluatedTask>& tasks) {
  size_t width = 5;
  for (const EvaluatedTask& task : tasks)
    for (const auto* list : {&task.groups, &task.subtasks})
      for (const TaskResult& one : *list) width = std::max(width, one.name.size());
  const std::string head = fmt::format(
      "| {:<{}} | version | filter           | n-shot | metric           |    value |   stderr |\n", "task",
      width);
  std::string out =
      head + fmt::format(
                 "|{:-<{}}|---------|------------------|--------|------------------|----------|----------|\n",
                 "", width + 2);
  for (const EvaluatedTask& task : tasks)
    for (const auto* list : {&task.groups, &task.subtasks})
      for (const TaskResult& one : *list)
        for (const MetricResult& score : one.scores)
          out +=
              fmt::format("| {:<{}} | {:>7} | {:<16} | {:>6} | {:<16} | {:>8.4f} | {:>8} |\n", one.name,
                          width, one.version.dump(), score.filter, one.shots, score.metric, score.score.value,
                          score.score.error ? fmt::format("{:.4f}", *score.score.error) : "N/A");
  return out;
}

OutputFiles::OutputFiles(const std::string& output) {
  if (output.ends_with(".json")) {
    results = output;
    folder = std::filesystem::path(output).parent_path().string();
    if (folder.empty()) folder = ".";
  } else {
    folder = output;
    results = output + "/results.json";
  }
}

Status write_results(const OutputFiles& files, const std::vector<EvaluatedTask>& tasks, const Json& results,
                     bool samples) {
  if (!samples) return write_file(files.results, results.dump(2) + "\n");
  for (const EvaluatedTask& task : tasks)
    for (const TaskResult& subtask : task.subtasks) {
      MAKAR_TRY(FileWriter writer, FileWriter::open(files.samples(subtask.name)));
      for (const Json& line : subtask.samples) MAKAR_RETURN_IF_ERROR(writer.write(line.dump() + "\n"));
      MAKAR_RETURN_IF_ERROR(writer.commit());
    }
  return write_file(files.results, results.dump(2) + "\n");
}

}  // namespace makar
