// makar eval: a model on the tasks of tasks/.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/eval_model.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "eval/results.h"

namespace makar {

int run_eval_compare(const std::vector<std::string>& arguments);

namespace {

namespace fs = std::filesystem;

struct EvalCommand {
  EvalModelFlags flags;
  EvalOptions eval;
  std::string tasks, include, output;
  int64_t seed = 1234;
  bool json = false;
};

// The folder of task files: --include-path, ./tasks, or the one beside the program.
std::vector<std::string> task_folders(const EvalCommand& c) {
  if (!c.include.empty()) return {c.include};
  std::vector<std::string> out = {"tasks"};
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  if (!code) {
    out.push_back((program.parent_path().parent_path() / "tasks").string());
    out.push_back((program.parent_path().parent_path() / "share/makar/tasks").string());
  }
  return out;
}

// name -> file
std::map<std::string, std::string> known_tasks(const EvalCommand& c) {
  std::map<std::string, std::string> out;
  for (const std::string& folder : task_folders(c)) {
    std::error_code code;
    for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
      if (it->path().extension() == ".yaml") out.emplace(it->path().stem().string(), it->path().string());
  }
  return out;
}

Result<std::vector<EvalTask>> find_tasks(const EvalCommand& c) {
  const auto known = known_tasks(c);
  std::vector<std::string> names;
  for (const auto& [name, file] : known) names.push_back(name);
  std::vector<EvalTask> out;
  std::istringstream words(c.tasks);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty()) continue;
    std::string file = word;
    if (!word.ends_with(".yaml")) {
      const auto at = known.find(word);
      if (at == known.end())
        return error_of(Error::Kind::kNotFound, "--tasks",
                        "there is no task '{}'{}; makar eval ls lists them", word, did_you_mean(word, names));
      file = at->second;
    }
    MAKAR_TRY(EvalTask task, read_task(file));
    out.push_back(std::move(task));
  }
  if (out.empty()) return error_at("--tasks", "names no task");
  return out;
}

int list_tasks(const std::vector<std::string>& arguments) {
  EvalCommand c;
  Options options("eval ls", "Lists the tasks: name, version, output type, dataset.", "makar eval ls");
  options.add("--include-path --include_path", &c.include, "the folder of task files, instead of tasks/",
              "DIR");
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

int evaluate(EvalCommand& c, EvalModel& model, const std::vector<EvalTask>& tasks) {
  const OutputFiles files(c.output);
  if (!c.output.empty())
    if (const Status made = make_folder(files.folder); !made.ok()) return report(made.error());
  auto cache = EvalCache::open(c.output.empty() ? "" : files.cache());
  if (!cache.ok()) return report(cache.error());
  if (cache->size() > 0)
    fmt::print(stderr, "makar: {} finished documents in {}\n", cache->size(), files.cache());
  std::vector<EvaluatedTask> done;
  {
    Progress progress;
    c.eval.progress = [&](const std::string& task, size_t at, size_t total) {
      progress.show(task, at, total);
    };
    for (const EvalTask& task : tasks) {
      auto parts = run_task(model, task, c.eval, *cache);
      if (!parts.ok()) return report(parts.error());
      auto groups = group_results(task, *parts);
      done.push_back({std::move(*parts), std::move(groups)});
    }
  }
  const Json results = results_json(done, c.eval, model.identity());
  if (!c.output.empty())
    if (const Status written = write_results(files, done, results, c.eval.samples); !written.ok())
      return report(written.error());
  return print_out(c.json ? results.dump() + "\n" : results_table(done)) ? 0 : 1;
}

}  // namespace

int run_eval(const std::vector<std::string>& given) {
  if (!given.empty() && given[0] == "compare") return run_eval_compare({given.begin() + 1, given.end()});
  if (!given.empty() && given[0] == "ls") return list_tasks({given.begin() + 1, given.end()});
  // `makar eval run` is the same as `makar eval`.
  const std::vector<std::string> arguments(given.begin() + (!given.empty() && given[0] == "run"),
                                           given.end());
  EvalCommand c;
  Options options("eval",
                  "Evaluates a model on tasks: accuracy, exact match, perplexity, as lm-eval does. `makar "
                  "eval ls` lists the tasks.",
                  "makar eval -m MODEL --tasks mmlu,piqa --data DIR --limit 100");
  options.subcommand("compare", "compare the results of runs");
  c.flags.model.declare(options);
  declare_device(options, c.flags.model.device);
  options.group("Tasks");
  options.add("--tasks", &c.tasks, "names of tasks or task files, separated by commas", "NAMES");
  options.add("--data", &c.eval.data, "the folder that has the datasets", "DIR");
  options.add("--num-fewshot --num_fewshot", &c.eval.num_fewshot,
              "examples before each question; -1: as the task says", "N");
  options.add("--limit", &c.eval.limit, "only the first N documents of each task; 0: all", "N");
  options.add("--seed", &c.seed, "draws few-shot examples and sampled answers", "S");
  options.add("--include-path --include_path", &c.include, "the folder of task files, instead of tasks/",
              "DIR");
  options.add("--confirm-run-unsafe-code --confirm_run_unsafe_code", &c.eval.run_programs,
              "let tasks with pass@k run the model's programs, in a sandbox without network");
  options.add("--apply-chat-template --apply_chat_template", &c.eval.style.chat,
              "put questions as messages through the model's chat template");
  options.add("--fewshot-as-multiturn --fewshot_as_multiturn", &c.eval.style.multiturn,
              "examples are turns of the conversation; needs --apply-chat-template");
  options.add("--system-instruction --system_instruction", &c.eval.style.system,
              "the system message; needs --apply-chat-template", "TEXT");
  options.add("--no-prefix-cache", &c.flags.no_prefix_cache,
              "compute every context from its beginning; results are the same, only slower");
  c.flags.declare_url(options);
  options.group("Output");
  options.add(
      "--output --output-path --output_path", &c.output,
      "write results to FILE.json, or to results.json in a folder; a run that was stopped resumes from "
      "the cache beside it",
      "PATH");
  options.add("--log-samples --log_samples", &c.eval.samples,
              "write each document and response to samples_TASK.jsonl");
  options.add("--json", &c.json, "print the results as JSON");
  c.flags.engine.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.eval.limit < 0) return report(error_at("--limit", "must be 0 or more, got {}", c.eval.limit)), 2;
  if (c.eval.num_fewshot < -1 || c.eval.num_fewshot > 1000)
    return report(error_at("--num-fewshot", "must be -1 to 1000, got {}", c.eval.num_fewshot)), 2;
  if (c.seed < 0) return report(error_at("--seed", "must be 0 or more, got {}", c.seed)), 2;
  if (c.eval.samples && c.output.empty())
    return report(error_at("--log-samples", "needs --output, the place of the files")), 2;
  if (!c.eval.style.chat && (c.eval.style.multiturn || !c.eval.style.system.empty()))
    return report(error_at(c.eval.style.multiturn ? "--fewshot-as-multiturn" : "--system-instruction",
                           "needs --apply-chat-template")),
           2;
  if (const Status status = c.flags.check(); !status.ok()) return report(status.error()), 2;
  if (c.eval.data.empty()) c.eval.data = ".";
  c.eval.seed = static_cast<uint64_t>(c.seed);
  const auto tasks = find_tasks(c);
  if (!tasks.ok()) return report(tasks.error()), 2;
  return with_eval_model(c.flags, [&](EvalModel& model) { return evaluate(c, model, *tasks); });
}

}  // namespace makar
