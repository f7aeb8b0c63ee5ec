#include "cli/eval_tasks.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/nearest.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> task_folders(const EvalRunFlags& c) {
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

}  // namespace

void EvalRunFlags::declare_tasks(Options& options) {
  flags.model.declare(options);
  flags.model.declare_device(options);
  options.group("Tasks");
  options.add("--tasks", &tasks, "names of tasks or task files, separated by commas", "NAMES");
  options.add("--data", &eval.data, "folder with the datasets", "DIR");
  options.add("--num-fewshot --num_fewshot", &eval.num_fewshot,
              "examples before each question; -1 for the task's own number", "N");
  options.add("--limit", &eval.limit, "evaluate only the first N documents of each task; 0: all", "N");
  options.add("--seed", &seed, "seed for few-shot examples and sampled answers", "S");
  options.add("--include-path --include_path", &include, "folder of task files, instead of tasks/", "DIR");
  options.add("--confirm-run-unsafe-code --confirm_run_unsafe_code", &eval.run_programs,
              "let tasks with pass@k run the model's programs, in a sandbox without network");
  options.add("--apply-chat-template --apply_chat_template", &eval.style.chat,
              "format questions with the model's chat template");
  options.add("--fewshot-as-multiturn --fewshot_as_multiturn", &eval.style.multiturn,
              "format examples as turns of the conversation; needs --apply-chat-template");
  options.add("--system-instruction --system_instruction", &eval.style.system,
              "the system message; needs --apply-chat-template", "TEXT");
  options.add("--no-prefix-cache", &flags.no_prefix_cache,
              "do not reuse shared prefixes; same results, slower");
}

Status EvalRunFlags::check() {
  if (eval.limit < 0) return error_at("--limit", "must be 0 or more, got {}", eval.limit);
  if (eval.num_fewshot < -1 || eval.num_fewshot > 1000)
    return error_at("--num-fewshot", "must be -1 to 1000, got {}", eval.num_fewshot);
  if (seed < 0) return error_at("--seed", "must be 0 or more, got {}", seed);
  if (!eval.style.chat && (eval.style.multiturn || !eval.style.system.empty()))
    return error_at(eval.style.multiturn ? "--fewshot-as-multiturn" : "--system-instruction",
                    "needs --apply-chat-template");
  if (eval.data.empty()) eval.data = ".";
  eval.seed = static_cast<uint64_t>(seed);
  return flags.check();
}

std::map<std::string, std::string> known_tasks(const EvalRunFlags& c) {
  std::map<std::string, std::string> out;
  for (const std::string& folder : task_folders(c)) {
    std::error_code code;
    for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
      if (it->path().extension() == ".yaml") out.emplace(it->path().stem().string(), it->path().string());
  }
  return out;
}

Result<EvalTask> find_task(const EvalRunFlags& c, const std::string& name) {
  if (name.ends_with(".yaml")) return read_task(name);
  const auto known = known_tasks(c);
  if (const auto at = known.find(name); at != known.end()) return read_task(at->second);
  std::vector<std::string> names;
  for (const auto& [one, file] : known) names.push_back(one);
  return error_of(Error::Kind::kNotFound, "--tasks", "unknown task '{}'{}; makar eval ls lists them", name,
                  did_you_mean(name, names));
}

Result<std::vector<EvalTask>> find_tasks(const EvalRunFlags& c) {
  std::vector<EvalTask> out;
  std::istringstream words(c.tasks);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty()) continue;
    MAKAR_TRY(EvalTask task, find_task(c, word));
    out.push_back(std::move(task));
  }
  if (out.empty()) return error_at("--tasks", "names no task; makar eval ls lists them");
  return out;
}

Result<EvalCache> open_cache(const EvalRunFlags& c) {
  if (c.output.empty()) return EvalCache::open("");
  const OutputFiles files(c.output);
  MAKAR_RETURN_IF_ERROR(make_folder(files.folder));
  MAKAR_TRY(EvalCache cache, EvalCache::open(files.cache()));
  if (cache.size() > 0)
    fmt::print(stderr, "makar: resuming with {} finished documents in {}\n", cache.size(), files.cache());
  return cache;
}

}  // namespace makar
