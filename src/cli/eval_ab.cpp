// makar eval ab: compares two prompts of a task on the same documents, or a prompt with a regression file.
#include <fmt/format.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/eval_tasks.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/prompt_test.h"

namespace makar {
namespace {

struct AbCommand : EvalRunFlags {
  std::string second, text, description, save, check_file;
  int64_t shots = -1;
  double level = 0.05;
  ResampleOptions resample;
};

Result<EvalTask> second_task(const AbCommand& c, const EvalTask& first) {
  if (!c.second.empty()) return find_task(c, c.second);
  Json changes = Json::object();
  if (!c.text.empty()) changes["doc_to_text"] = c.text;
  if (!c.description.empty()) changes["description"] = c.description;
  if (c.shots >= 0) changes["num_fewshot"] = c.shots;
  return changed_task(first, changes, first.name + "_b");
}

Result<VariantValues> run_variant(const AbCommand& c, EvalModel& model, const EvalTask& task,
                                  EvalCache& cache) {
  Progress progress;
  EvalOptions eval = c.eval;
  eval.samples = true;
  eval.progress = [&](const std::string& name, size_t at, size_t total) { progress.show(name, at, total); };
  MAKAR_TRY(const auto subtasks, run_task(model, task, eval, cache));
  return variant_values(task, subtasks);
}

std::string test_text(const VariantValues& a, const VariantValues& b, const VariantTest& test) {
  const std::string metric = a.metric == b.metric ? a.metric : a.metric + " and " + b.metric;
  std::string out = fmt::format("{} on {} documents\n  A {:<32} {:.4f}\n  B {:<32} {:.4f}\n", metric,
                                test.documents, a.name, test.first, b.name, test.second);
  out += fmt::format("  B - A {:+.4f}, 95 % interval {:+.4f} to {:+.4f}, p {:.4f} (paired bootstrap)\n",
                     test.second - test.first, test.bootstrap.interval.low, test.bootstrap.interval.high,
                     test.bootstrap.p);
  if (test.mcnemar) out += fmt::format("  McNemar's exact p {:.4f}\n", test.mcnemar->exact_p);
  return out + fmt::format("  B is better on {}, equal on {}, worse on {} documents\n", test.wins, test.ties,
                           test.losses);
}

// Returns the exit code: 1 if there is a regression.
Result<int> compare(AbCommand& c, EvalModel& model, const EvalTask& task) {
  MAKAR_TRY(EvalCache cache, open_cache(c));
  const bool against_file = !c.check_file.empty();
  std::optional<VariantValues> a, b;
  if (against_file) {
    MAKAR_TRY(const std::string text, read_file(c.check_file, size_t{256} << 20));
    MAKAR_TRY(a, parse_regression(text, c.check_file));
    a->name = c.check_file;
  }
  const bool second_prompt = !c.second.empty() || !c.text.empty() || !c.description.empty() || c.shots >= 0;
  MAKAR_TRY(VariantValues last, run_variant(c, model, task, cache));
  if (second_prompt) {
    MAKAR_TRY(const EvalTask other, second_task(c, task));
    if (!against_file) a = last;
    MAKAR_TRY(last, run_variant(c, model, other, cache));
  }
  b = last;
  if (!c.save.empty())
    MAKAR_RETURN_IF_ERROR(write_file(c.save, dump(regression_json(*b, model.identity()), 2) + "\n"));
  if (!a) {
    if (!print_out(fmt::format("{} {:.4f} on {} documents\n", b->metric, b->score, b->values.size())))
      return 1;
    return 0;
  }
  // Two tasks may find the answer in different ways: the filter, after the comma, may differ.
  if (a->metric.substr(0, a->metric.find(',')) != b->metric.substr(0, b->metric.find(',')))
    return error_at(b->name, "has the metric {}, but {} has {}", b->metric, a->name, a->metric);
  MAKAR_TRY(const VariantTest test, test_variants(*a, *b, c.resample));
  const bool worse = test.worse(a->higher_is_better, c.level);
  Json out = test_json(*a, *b, test);
  out["regression"] = worse;
  if (!print_out(c.json ? dump(out) + "\n" : test_text(*a, *b, test))) return 1;
  if (!against_file || !worse) return 0;
  fmt::print(stderr, "makar: regression: {} is worse than {} with p below {}\n", b->name, a->name, c.level);
  return 1;
}

}  // namespace

int run_eval_ab(const std::vector<std::string>& arguments) {
  AbCommand c;
  Options options(
      "eval ab",
      "Compare two prompts of a task on the same documents with a paired test. --save writes the values of "
      "every document to a regression file; --check compares with it, and exits with 1 if they are worse.",
      "makar eval ab -m MODEL --tasks piqa --doc-to-text 'Goal: {{goal}} How?' --data DIR --limit 200");
  c.declare_tasks(options);
  options.group("Second prompt");
  options.add("--second-task --with", &c.second, "the second task, a name or a file, on the same data",
              "NAME");
  options.add("--doc-to-text", &c.text,
              "instead of --second-task: the first task with this question template", "TEMPLATE");
  options.add("--description", &c.description,
              "instead of --second-task: the first task with this description", "TEXT");
  options.add("--shots", &c.shots,
              "instead of --second-task: the first task with this many examples; -1 for its own number", "N");
  options.group("Tests");
  options.add("--resamples", &c.resample.resamples, "resamples of the paired bootstrap", "N");
  options.add("--level", &c.level, "p-value below which a lower score is a regression", "P");
  options.add("--save", &c.save, "write the values of the last prompt to a regression file", "FILE");
  options.add("--check", &c.check_file,
              "compare the last prompt with a regression file; exit 1 if it is worse", "FILE");
  c.flags.declare_url(options);
  options.group("Output");
  options.add("--output --output-path --output_path", &c.output,
              "folder of the cache from which a stopped run resumes", "DIR");
  options.add("--json", &c.json, "print the test as JSON");
  c.flags.engine.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = c.check(); !status.ok()) return report(status.error()), 2;
  if (c.resample.resamples < 1 || c.resample.resamples > 1'000'000)
    return report(error_at("--resamples", "must be 1 to 1000000, got {}", c.resample.resamples)), 2;
  if (!(c.level > 0 && c.level < 1))
    return report(error_at("--level", "must be between 0 and 1, got {}", c.level)), 2;
  if (!c.second.empty() && (!c.text.empty() || !c.description.empty() || c.shots >= 0))
    return report(error_at("--second-task",
                           "names a whole task; leave out --doc-to-text, --description and --shots")),
           2;
  const auto tasks = find_tasks(c);
  if (!tasks.ok()) return report(tasks.error()), 2;
  if (tasks->size() != 1) return report(error_at("--tasks", "expects one task, got {}", tasks->size())), 2;
  return with_eval_model(c.flags, [&](EvalModel& model) {
    const auto code = compare(c, model, (*tasks)[0]);
    return code.ok() ? *code : report(code.error());
  });
}

}  // namespace makar
