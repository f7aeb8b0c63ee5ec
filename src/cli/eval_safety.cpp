// makar eval safety: a report on toxicity, bias, refusals and consistency.
#include <fmt/format.h>

#include <sstream>

#include "base/file.h"
#include "base/progress.h"
#include "cli/eval_tasks.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/safety.h"

namespace makar {
namespace {

struct SafetyCommand : EvalRunFlags {
  SafetyOptions safety;
  std::string classifier, controls;
  std::vector<std::string> benign;
};

int run_report(SafetyCommand& c, EvalModel& model, const std::vector<EvalTask>& tasks) {
  auto cache = open_cache(c);
  if (!cache.ok()) return report(cache.error());
  Result<Json> safety = Json();
  {
    Progress progress;
    c.safety.eval = c.eval;
    c.safety.eval.progress = [&](const std::string& task, size_t at, size_t total) {
      progress.show(task, at, total);
    };
    safety = safety_report(model, tasks, c.safety, *cache);
  }
  if (!safety.ok()) return report(safety.error());
  const std::string text = safety_markdown(*safety);
  if (!c.output.empty()) {
    const std::string folder = OutputFiles(c.output).folder;
    for (const auto& [name, content] :
         {std::pair("safety.json", dump(*safety, 2) + "\n"), {"safety.md", text}})
      if (const Status written = write_file(folder + "/" + name, content); !written.ok())
        return report(written.error());
  }
  return print_out(c.json ? dump(*safety) + "\n" : text) ? 0 : 1;
}

}  // namespace

int run_eval_safety(const std::vector<std::string>& arguments) {
  SafetyCommand c;
  c.tasks = "toxicity_prompts,refusals";
  Options options(
      "eval safety",
      "Report on safety and fairness: toxicity of answers, bias by group, counterfactual fairness "
      "(people in the question exchanged), refusals, consistency under paraphrase, and the loss of quality "
      "by toxicity "
      "control.",
      "makar eval safety -m MODEL --tasks toxicity_prompts,refusals,bbq --data DIR --classifier "
      "toxicity.json --control reject,steer");
  c.declare_tasks(options);
  options.group("Toxicity");
  options.add("--classifier", &c.classifier,
              "toxicity classifier, a file of `makar classify train --method logistic`", "FILE");
  options.add("--benign", &c.benign,
              "the classifier's label for harmless texts, if it is not a common name such as `safe`",
              "LABEL");
  options.add("--threshold", &c.safety.control.threshold, "a text with at least this probability is toxic",
              "P");
  options.add(
      "--control", &c.controls,
      "also measure these modes of toxicity control, separated by commas: none, reject, rewrite, steer",
      "MODES");
  options.add("--attempts", &c.safety.control.attempts,
              "reject, rewrite: maximum number of answers to generate", "N");
  options.add("--block", &c.safety.control.block, "steer: tokens per block", "N");
  options.add("--candidates", &c.safety.control.candidates, "steer: candidate blocks per step", "N");
  c.flags.declare_url(options);
  options.group("Output");
  options.add("--output --output-path --output_path", &c.output,
              "write safety.json and safety.md to this folder; a run that was stopped resumes from its cache",
              "DIR");
  options.add("--json", &c.json, "print the report as JSON");
  c.flags.engine.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = c.check(); !status.ok()) return report(status.error()), 2;
  std::istringstream modes(c.controls);
  for (std::string mode; std::getline(modes, mode, ',');) {
    ControlOptions control = c.safety.control;
    control.mode = mode;
    if (const Status status = check_control(control); !status.ok()) return report(status.error()), 2;
    c.safety.controls.push_back(mode);
  }
  if (const Status status = check_control(c.safety.control); !status.ok()) return report(status.error()), 2;
  if (!c.safety.controls.empty() && c.classifier.empty())
    return report(error_at("--control", "needs --classifier, which measures toxicity")), 2;
  const auto tasks = find_tasks(c);
  if (!tasks.ok()) return report(tasks.error()), 2;
  std::optional<ToxicityClassifier> classifier;
  if (!c.classifier.empty()) {
    auto opened = ToxicityClassifier::open(c.classifier, c.benign);
    if (!opened.ok()) return report(opened.error());
    classifier = std::move(*opened);
    c.safety.classifier = &*classifier;
  }
  return with_eval_model(c.flags, [&](EvalModel& model) { return run_report(c, model, *tasks); });
}

}  // namespace makar
