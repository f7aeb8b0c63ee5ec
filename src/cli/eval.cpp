// makar eval: evaluates a model on the tasks of tasks/.
#include <fmt/format.h>

#include "base/progress.h"
#include "cli/command.h"
#include "cli/eval_tasks.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/perturb.h"
#include "eval/results.h"

namespace makar {
namespace {

int list_tasks(const std::vector<std::string>& arguments) {
  EvalRunFlags c;
  Options options("eval ls", "List the tasks: name, version, output type, dataset.", "makar eval ls");
  options.add("--include-path --include_path", &c.include, "folder of task files, instead of tasks/", "DIR");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  for (const auto& [name, file] : known_tasks(c)) {
    const auto task = read_task(file);
    if (!task.ok()) return report(task.error());
    if (!print_out(fmt::format("{:<28} version {:<4} {:<22} {}\n", name, task->version.dump(),
                               makar::name(task->output), task->dataset_path)))
      return 1;
  }
  return 0;
}

int evaluate(EvalRunFlags& c, EvalModel& model, const std::vector<EvalTask>& tasks) {
  const OutputFiles files(c.output);
  auto cache = open_cache(c);
  if (!cache.ok()) return report(cache.error());
  std::vector<EvaluatedTask> evaluated;
  {
    Progress progress;
    c.eval.progress = [&](const std::string& task, size_t at, size_t total) {
      progress.show(task, at, total);
    };
    for (const EvalTask& task : tasks) {
      auto subtasks = run_task(model, task, c.eval, *cache);
      if (!subtasks.ok()) return report(subtasks.error());
      auto groups = group_results(task, *subtasks);
      evaluated.push_back({std::move(*subtasks), std::move(groups)});
    }
  }
  const Json results = results_json(evaluated, c.eval, model.identity());
  if (!c.output.empty())
    if (const Status written = write_results(files, evaluated, results, c.eval.samples); !written.ok())
      return report(written.error());
  return print_out(c.json ? dump(results) + "\n" : results_table(evaluated)) ? 0 : 1;
}

constexpr Command kSubcommands[] = {
    {"ls", "list the tasks", list_tasks},
    {"compare", "compare the results of models, with paired tests", run_eval_compare},
    {"matrix", "table of tasks by metrics: accuracy, calibration, robustness, bias, ...", run_eval_matrix},
    {"safety", "report toxicity, bias, refusals and consistency", run_eval_safety},
    {"ab", "compare two prompts of a task, with a paired test", run_eval_ab},
};

}  // namespace

int run_eval(const std::vector<std::string>& words) {
  for (const Command& one : kSubcommands)
    if (!words.empty() && words[0] == one.name) return one.run({words.begin() + 1, words.end()});
  // `makar eval run` is the same as `makar eval`.
  const std::vector<std::string> arguments(words.begin() + (!words.empty() && words[0] == "run"),
                                           words.end());
  EvalRunFlags c;
  Options options("eval", "Evaluate a model on tasks as lm-eval does: accuracy, exact match, perplexity.",
                  "makar eval -m MODEL --tasks mmlu,piqa --data DIR --limit 100");
  for (const Command& one : kSubcommands) options.subcommand(one.name, one.summary);
  c.declare_tasks(options);
  options.add("--perturb", &c.eval.style.perturbation,
              "change every question: typos, lowercase, contractions, synonyms, gender or names", "KIND");
  c.flags.declare_url(options);
  options.group("Output");
  options.add(
      "--output --output-path --output_path", &c.output,
      "write results to FILE.json, or to results.json in a folder; a run that was stopped resumes from "
      "the cache next to it",
      "PATH");
  options.add("--log-samples --log_samples", &c.eval.samples,
              "write each document and response to samples_TASK.jsonl");
  options.add("--json", &c.json, "print the results as JSON");
  c.flags.engine.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = c.check(); !status.ok()) return report(status.error()), 2;
  if (c.eval.samples && c.output.empty())
    return report(error_at("--log-samples", "needs --output, the folder of the samples")), 2;
  if (const Status status = check_perturbation(c.eval.style.perturbation); !status.ok())
    return report(status.error()), 2;
  const auto tasks = find_tasks(c);
  if (!tasks.ok()) return report(tasks.error()), 2;
  return with_eval_model(c.flags, [&](EvalModel& model) { return evaluate(c, model, *tasks); });
}

}  // namespace makar
