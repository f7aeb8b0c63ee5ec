// What makar eval and its subcommands share: options of tasks, finding tasks, the cache.
#pragma once
#include <map>

#include "cli/eval_model.h"
#include "eval/results.h"

namespace makar {

struct EvalRunFlags {
  EvalModelFlags flags;
  EvalOptions eval;
  std::string tasks, include, output;
  int64_t seed = 1234;
  bool json = false;
  // The model, the tasks, and how questions are formatted.
  void declare_tasks(Options& options);
  // Checks these options (an error is bad usage) and completes `eval`.
  Status check();
};

// name -> file, in --include-path, ./tasks, or the folder next to the program.
std::map<std::string, std::string> known_tasks(const EvalRunFlags& c);
// A name of a task or a path of a task file.
Result<EvalTask> find_task(const EvalRunFlags& c, const std::string& name);
// The tasks of --tasks.
Result<std::vector<EvalTask>> find_tasks(const EvalRunFlags& c);
// The cache next to the results of --output (creates the folder); in memory without --output.
Result<EvalCache> open_cache(const EvalRunFlags& c);

int run_eval_compare(const std::vector<std::string>& arguments);
int run_eval_matrix(const std::vector<std::string>& arguments);
int run_eval_safety(const std::vector<std::string>& arguments);
int run_eval_ab(const std::vector<std::string>& arguments);

}  // namespace makar
