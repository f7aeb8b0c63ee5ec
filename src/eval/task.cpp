#include "eval/task.h"

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "eval/sandbox.h"
#include "eval/task_metrics.h"
#include "eval/task_reader.h"

namespace makar {
namespace {

constexpr size_t kMaxTaskFileBytes = size_t{2} << 20, kMaxInlineDocuments = 10'000;
constexpr OutputType kOutputs[] = {OutputType::kMultipleChoice, OutputType::kLoglikelihood,
                                   OutputType::kRolling, OutputType::kGenerate};

Result<OutputType> parse_output(const TaskReader& in) {
  MAKAR_TRY(const std::string word, in.text("output_type", "generate_until"));
  std::vector<std::string> known;
  for (const OutputType type : kOutputs) {
    if (word == name(type)) return type;
    known.emplace_back(name(type));
  }
  return in.error("output_type", fmt::format("unknown output type {}{}; expected {}", quote(word),
                                             did_you_mean(word, known), fmt::join(known, ", ")));
}

bool is_correlation(const MetricOptions& metric) {
  return metric.name == "pearson" || metric.name == "spearman";
}

Status read_data(const TaskReader& in, EvalTask& task) {
  MAKAR_TRY(task.dataset_path, in.text("dataset_path", ""));
  MAKAR_TRY(const auto kwargs, in.map("dataset_kwargs"));
  if (kwargs) {
    const TaskReader& data = *kwargs;
    MAKAR_RETURN_IF_ERROR(data.only({"data_files", "columns", "joined_files", "shared_files", "sample_by",
                                     "field", "explode", "documents"}));
    MAKAR_TRY(const auto files, data.lists("data_files"));
    for (const auto& [split, list] : files) task.data_files[split] = list;
    for (const auto& [key, fields] :
         {std::pair("joined_files", &task.joined_files), std::pair("shared_files", &task.shared_files)}) {
      MAKAR_TRY(const auto file_lists, data.lists(key));
      for (const auto& [field, list] : file_lists) {
        if (list.size() != 1) return data.error(key, "expects one file for each field");
        fields->emplace_back(field, list[0]);
      }
    }
    MAKAR_TRY(task.field, data.text("field", ""));
    MAKAR_TRY(task.explode, data.text("explode", ""));
    MAKAR_TRY(const auto documents, data.maps("documents", kMaxInlineDocuments));
    for (const TaskReader& one : documents) {
      MAKAR_TRY(Json document, one.json());
      task.documents.push_back(std::move(document));
    }
    MAKAR_TRY(task.columns, data.columns("columns"));
    MAKAR_TRY(const std::string sample_by, data.text("sample_by", "document"));
    if (sample_by != "document" && sample_by != "line")
      return data.error("sample_by", fmt::format("expected document or line, got {}", quote(sample_by)));
    task.lines = sample_by == "line";
  }
  MAKAR_TRY(task.test_split, in.text("test_split", "test"));
  MAKAR_TRY(task.fewshot_split, in.text("fewshot_split", ""));
  for (const std::string& split : {task.test_split, task.fewshot_split})
    if (!split.empty() && !task.data_files.count(split) &&
        (task.documents.empty() || split != task.test_split))
      return in.error("dataset_kwargs",
                      fmt::format("data_files has no files for the split {}", quote(split)));
  MAKAR_TRY(const auto names, in.lists("dataset_name"));
  for (const auto& [group, list] : names)
    for (const std::string& one : list)
      task.subtasks.push_back({group.empty() ? task.name : task.name + "_" + group, one});
  return Done{};
}

Status read_templates(const TaskReader& in, EvalTask& task) {
  MAKAR_TRY(task.description, in.field_template("description"));
  MAKAR_TRY(task.text, in.field_template("doc_to_text", true));
  MAKAR_TRY(task.target, in.field_template("doc_to_target", true));
  MAKAR_TRY(task.turns, in.field_template("doc_to_turns", true));
  if (!task.turns.empty() && (!task.text.empty() || task.output != OutputType::kGenerate))
    return in.error("doc_to_turns", "replaces doc_to_text and requires generate_until");
  if (in.is_list("doc_to_choice")) {
    MAKAR_TRY(task.choice_list, in.list("doc_to_choice", {}));
  } else {
    MAKAR_TRY(task.choice, in.field_template("doc_to_choice", true));
  }
  const bool choices = !task.choice.empty() || !task.choice_list.empty();
  if (choices != (task.output == OutputType::kMultipleChoice))
    return in.error(choices ? "doc_to_choice" : "output_type",
                    "multiple_choice needs doc_to_choice, and no other output type has it");
  if (task.target.empty()) return in.error("task", "has no doc_to_target");
  MAKAR_TRY(task.target_delimiter, in.text("target_delimiter", " "));
  MAKAR_TRY(task.fewshot_delimiter, in.text("fewshot_delimiter", "\n\n"));
  MAKAR_TRY(task.num_fewshot, in.integer("num_fewshot", 0, 0, 1000));
  MAKAR_TRY(const auto shots, in.map("fewshot_config"));
  if (shots) {
    MAKAR_RETURN_IF_ERROR(shots->only({"sampler"}));
    MAKAR_TRY(const std::string sampler, shots->text("sampler", "default"));
    if (sampler != "default" && sampler != "first_n")
      return shots->error("sampler", fmt::format("expected default or first_n, got {}", quote(sampler)));
    task.first_shots = sampler == "first_n";
  }
  return Done{};
}

Status read_generation(const TaskReader& in, EvalTask& task) {
  MAKAR_TRY(const auto kwargs, in.map("generation_kwargs"));
  if (!kwargs) {
    if (task.repeats > 1)
      return in.error("repeats", "need generation_kwargs with do_sample and a temperature");
    return Done{};
  }
  if (task.output != OutputType::kGenerate)
    return in.error("generation_kwargs", "only generate_until has them");
  MAKAR_RETURN_IF_ERROR(kwargs->only({"until", "max_gen_toks", "do_sample", "temperature", "top_p"}));
  MAKAR_TRY(task.until, kwargs->list("until", task.until));
  MAKAR_TRY(task.max_gen_toks, kwargs->integer("max_gen_toks", 256, 1, 1 << 20));
  MAKAR_TRY(task.temperature, kwargs->number("temperature", 0, 0, 100));
  MAKAR_TRY(task.top_p, kwargs->number("top_p", 1, 0, 1));
  MAKAR_TRY(const bool sample, kwargs->flag("do_sample", task.temperature > 0));
  if (!sample) task.temperature = 0;
  if (task.repeats > 1 && task.temperature == 0)
    return kwargs->error("temperature", "repeats need do_sample and a temperature above 0");
  return Done{};
}

Status read_filters(const TaskReader& in, EvalTask& task) {
  MAKAR_TRY(const auto filters, in.maps("filter_list"));
  if (filters.empty()) return Done{};
  if (task.output != OutputType::kGenerate) return in.error("filter_list", "only generate_until has filters");
  task.filters.clear();
  for (const TaskReader& one : filters) {
    MAKAR_RETURN_IF_ERROR(one.only({"name", "filter"}));
    AnswerFilter filter;
    MAKAR_TRY(filter.name, one.text("name", "none"));
    MAKAR_TRY(const auto steps, one.maps("filter"));
    for (const TaskReader& step : steps) {
      MAKAR_RETURN_IF_ERROR(step.only({"function", "regex_pattern", "group_select", "fallback"}));
      FilterStep s;
      MAKAR_TRY(s.function, step.text("function", ""));
      const auto known = filter_functions();
      if (std::find(known.begin(), known.end(), s.function) == known.end())
        return step.error("function", fmt::format("unknown filter {}{}; expected {}", quote(s.function),
                                                  did_you_mean(s.function, known), fmt::join(known, ", ")));
      if (s.function == "regex") {
        MAKAR_TRY(s.regex, step.regex("regex_pattern"));
        MAKAR_TRY(s.group_select, step.integer("group_select", 0, -1000, 1000));
        MAKAR_TRY(s.fallback, step.text("fallback", s.fallback));
      }
      filter.steps.push_back(std::move(s));
    }
    task.filters.push_back(std::move(filter));
  }
  return Done{};
}

// Fields that only some metrics have.
Status read_metric_fields(const TaskReader& in, MetricOptions& metric) {
  MAKAR_TRY(metric.where, in.field_template("where", true));
  MAKAR_TRY(metric.all_of, in.field_template("all_of", true));
  MAKAR_TRY(metric.labels, in.field_template("labels", true));
  MAKAR_TRY(metric.against, in.field_template("against", true));
  MAKAR_TRY(metric.program, in.field_template("program"));
  MAKAR_TRY(metric.language, in.text("language", metric.language));
  MAKAR_TRY(metric.seconds, in.number("seconds", metric.seconds, 0.1, 3600));
  struct RequiredField {
    const FieldTemplate& field;
    const char* key;
    bool required;
  };
  const std::string& name = metric.name;
  for (const RequiredField& required_field :
       {RequiredField{metric.labels, "labels",
                      name == "lms" || name == "ss" || name == "icat" || name.ends_with("bias_score")},
        RequiredField{metric.against, "against", name.ends_with("_acc")},
        RequiredField{metric.program, "program", name.starts_with("pass@")}})
    if (required_field.field.empty() == required_field.required)
      return in.error("metric", fmt::format("{} {} '{}'", name, required_field.required ? "needs" : "has no",
                                            required_field.key));
  const auto known = program_languages();
  if (std::find(known.begin(), known.end(), metric.language) == known.end())
    return in.error("language",
                    fmt::format("expected {}, got {}", fmt::join(known, ", "), quote(metric.language)));
  return Done{};
}

Status read_metrics(const TaskReader& in, EvalTask& task) {
  const auto known = metric_names(task.output);
  MAKAR_TRY(const auto metrics, in.maps("metric_list"));
  for (const TaskReader& one : metrics) {
    MAKAR_RETURN_IF_ERROR(one.only({"metric", "aggregation", "higher_is_better", "ignore_case",
                                    "ignore_punctuation", "regexes_to_ignore", "alias", "where", "all_of",
                                    "labels", "against", "program", "language", "seconds"}));
    MetricOptions metric;
    MAKAR_TRY(metric.name, one.text("metric", ""));
    if (std::find(known.begin(), known.end(), metric.name) == known.end())
      return one.error(
          "metric", fmt::format("{} has no metric {}{}; expected {}", name(task.output), quote(metric.name),
                                did_you_mean(metric.name, known), fmt::join(known, ", ")));
    MAKAR_TRY(metric.ignore_case, one.flag("ignore_case", false));
    MAKAR_TRY(metric.ignore_punctuation, one.flag("ignore_punctuation", false));
    MAKAR_TRY(metric.regexes_to_ignore, one.regexes("regexes_to_ignore"));
    MAKAR_TRY(metric.alias, one.text("alias", ""));
    MAKAR_RETURN_IF_ERROR(read_metric_fields(one, metric));
    if (!metric.all_of.empty() && task_metric(task.output, metric.name).aggregation != Aggregation::kMean)
      return one.error("all_of", fmt::format("{} is not a mean of documents", metric.name));
    if (int64_t k = 0; metric.name.starts_with("pass@")) {
      std::from_chars(metric.name.data() + 5, metric.name.data() + metric.name.size(), k);
      if (k > task.repeats)
        return one.error("metric", fmt::format("{} needs 'repeats: {}' or more", metric.name, k));
    }
    for (const MetricOptions& other : task.metrics)
      if (other.title() == metric.title())
        return one.error("metric",
                         fmt::format("{} is given twice; give one an alias", quote(metric.title())));
    task.metrics.push_back(std::move(metric));
  }
  if (task.metrics.empty()) task.metrics.push_back({known[0]});
  if (!task.numeric() && std::any_of(task.metrics.begin(), task.metrics.end(), is_correlation) &&
      task.output == OutputType::kMultipleChoice)
    return in.error(
        "metric_list",
        "pearson and spearman cannot be combined with other metrics: their target is a number, not a choice");
  return Done{};
}

}  // namespace

const char* name(OutputType type) {
  switch (type) {
    case OutputType::kMultipleChoice:
      return "multiple_choice";
    case OutputType::kLoglikelihood:
      return "loglikelihood";
    case OutputType::kRolling:
      return "loglikelihood_rolling";
    case OutputType::kGenerate:
      break;
  }
  return "generate_until";
}

bool EvalTask::numeric() const {
  return output == OutputType::kMultipleChoice && std::all_of(metrics.begin(), metrics.end(), is_correlation);
}

bool EvalTask::runs_programs() const {
  return std::any_of(metrics.begin(), metrics.end(),
                     [](const MetricOptions& one) { return one.name.starts_with("pass@"); });
}

Result<EvalTask> parse_task(const std::string& text, const std::string& place) {
  MAKAR_TRY(const TaskReader in, TaskReader::open(text, place));
  MAKAR_RETURN_IF_ERROR(in.only({"task",
                                 "tag",
                                 "dataset_path",
                                 "dataset_name",
                                 "dataset_kwargs",
                                 "test_split",
                                 "fewshot_split",
                                 "output_type",
                                 "description",
                                 "doc_to_text",
                                 "doc_to_turns",
                                 "doc_to_choice",
                                 "doc_to_target",
                                 "target_delimiter",
                                 "fewshot_delimiter",
                                 "num_fewshot",
                                 "fewshot_config",
                                 "generation_kwargs",
                                 "repeats",
                                 "filter_list",
                                 "metric_list",
                                 "metadata"}));
  EvalTask task;
  task.place = place;
  MAKAR_TRY(task.name, in.text("task", ""));
  if (task.name.empty() || task.name.find_first_of("/\\,") != std::string::npos)
    return in.error("task", "expects a name without slashes and commas");
  MAKAR_TRY(task.output, parse_output(in));
  MAKAR_RETURN_IF_ERROR(read_data(in, task));
  MAKAR_RETURN_IF_ERROR(read_templates(in, task));
  MAKAR_TRY(task.repeats, in.integer("repeats", 1, 1, 1000));
  if (task.repeats > 1 && task.output != OutputType::kGenerate)
    return in.error("repeats", "only generate_until has them");
  if (task.repeats > 1 && !task.turns.empty())
    return in.error("repeats", "cannot be combined with doc_to_turns");
  MAKAR_RETURN_IF_ERROR(read_generation(in, task));
  MAKAR_RETURN_IF_ERROR(read_filters(in, task));
  MAKAR_RETURN_IF_ERROR(read_metrics(in, task));
  MAKAR_TRY(const auto metadata, in.map("metadata"));
  if (metadata) {
    MAKAR_TRY(task.version, metadata->number("version", 0, 0, 1e6));
  }
  MAKAR_TRY(task.config, in.json());
  return task;
}

Result<EvalTask> read_task(const std::string& path) {
  MAKAR_TRY(const std::string text, read_file(path, kMaxTaskFileBytes));
  return parse_task(text, path);
}

}  // namespace makar
