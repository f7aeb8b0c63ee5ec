// makar eval matrix: a table of tasks by metrics, of one model or of several side by side.
#include <fmt/format.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/eval_tasks.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/matrix.h"

namespace makar {
namespace {

struct MatrixCommand : EvalRunFlags {
  std::string classifier, plot;
  std::vector<std::string> benign, files;
};

int print_matrices(const MatrixCommand& c, const std::vector<Json>& matrices) {
  if (!c.plot.empty())
    if (const Status written = write_file(c.plot, matrix_svg(matrices)); !written.ok())
      return report(written.error());
  if (!c.json) return print_out(matrix_table(matrices)) ? 0 : 1;
  Json out = matrices.size() == 1 ? matrices[0]
                                  : Json{{"matrices", matrices}, {"win_rates", matrix_win_rates(matrices)}};
  return print_out(dump(out) + "\n") ? 0 : 1;
}

int run_matrix(MatrixCommand& c, EvalModel& model, const std::vector<EvalTask>& tasks,
               const ToxicityClassifier* classifier) {
  auto cache = open_cache(c);
  if (!cache.ok()) return report(cache.error());
  MatrixOptions options{c.eval, classifier};
  std::vector<Json> rows;
  {
    Progress progress;
    options.eval.progress = [&](const std::string& task, size_t at, size_t total) {
      progress.show(task, at, total);
    };
    for (const EvalTask& task : tasks) {
      auto row = run_scenario(model, task, options, *cache);
      if (!row.ok()) return report(row.error());
      rows.push_back(std::move(*row));
    }
  }
  const Json matrix = matrix_json(c.flags.model.model, rows, options, model.identity());
  if (!c.output.empty()) {
    const OutputFiles files(c.output);
    const std::string path = c.output.ends_with(".json") ? c.output : files.folder + "/matrix.json";
    if (const Status written = write_file(path, dump(matrix, 2) + "\n"); !written.ok())
      return report(written.error());
  }
  return print_matrices(c, {matrix});
}

// --compare needs no model.
int compare_matrices(MatrixCommand& c, const std::vector<std::string>& arguments) {
  Options options("eval matrix", "Show matrices of several models side by side, with win rates.",
                  "makar eval matrix --compare base --compare tuned --svg both.svg");
  options.add("--compare", &c.files, "a folder with matrix.json, or a file; repeat for several models",
              "PATH");
  options.add("--svg", &c.plot, "write the matrices as a chart", "FILE");
  options.add("--json", &c.json, "print the matrices as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  std::vector<Json> matrices;
  for (const std::string& file : c.files) {
    auto matrix = read_matrix(file);
    if (!matrix.ok()) return report(matrix.error());
    matrices.push_back(std::move(*matrix));
  }
  return print_matrices(c, matrices);
}

}  // namespace

int run_eval_matrix(const std::vector<std::string>& arguments) {
  MatrixCommand c;
  for (const std::string& argument : arguments)
    if (argument == "--compare" || argument.starts_with("--compare=")) return compare_matrices(c, arguments);
  Options options(
      "eval matrix",
      "Table of tasks by metrics, as in HELM: accuracy, calibration, robustness, fairness, bias, "
      "toxicity, efficiency of each task; or matrices of several models side by side, with win rates.",
      "makar eval matrix -m MODEL --tasks piqa,gsm8k --data DIR --limit 100 --output matrix --svg "
      "matrix.svg");
  c.declare_tasks(options);
  options.add("--classifier", &c.classifier,
              "toxicity classifier, a file of `makar classify train --method logistic`", "FILE");
  options.add("--benign", &c.benign,
              "the classifier's label for harmless texts, if it is not a common name such as `safe`",
              "LABEL");
  options.add("--compare", &c.files, "show these matrices of other runs instead of running tasks", "PATH");
  c.flags.declare_url(options);
  options.group("Output");
  options.add("--output --output-path --output_path", &c.output,
              "write matrix.json to this folder; a run that was stopped resumes from the cache in it",
              "PATH");
  options.add("--svg", &c.plot, "write the matrix as a chart", "FILE");
  options.add("--json", &c.json, "print the matrix as JSON");
  c.flags.engine.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = c.check(); !status.ok()) return report(status.error()), 2;
  const auto tasks = find_tasks(c);
  if (!tasks.ok()) return report(tasks.error()), 2;
  std::optional<ToxicityClassifier> classifier;
  if (!c.classifier.empty()) {
    auto opened = ToxicityClassifier::open(c.classifier, c.benign);
    if (!opened.ok()) return report(opened.error());
    classifier = std::move(*opened);
  }
  return with_eval_model(c.flags, [&](EvalModel& model) {
    return run_matrix(c, model, *tasks, classifier ? &*classifier : nullptr);
  });
}

}  // namespace makar
