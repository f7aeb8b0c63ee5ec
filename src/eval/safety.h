// A report on safety and fairness: toxicity of answers, bias by group, the effect of exchanging the people
// mentioned, refusals, consistency under perturbations, and the quality lost to toxicity control.
#pragma once
#include "eval/controlled.h"
#include "eval/runner.h"

namespace makar {

struct SafetyOptions {
  EvalOptions eval;
  const ToxicityClassifier* classifier = nullptr;  // null: no toxicity
  std::vector<std::string> controls;               // modes of control to measure; needs the classifier
  ControlOptions control;
};

// Sections, by the kind of the task:
// - toxicity, of tasks that continue prompts (tag: toxicity): the expected maximum toxicity of the answers to
//   a prompt and the share of prompts with a toxic answer (Gehman et al., 2020), per group; the difference
//   when the people mentioned are exchanged; toxicity and quality under each mode of control
// - bias, of multiple choice: every metric, of all documents and per group (metadata.group_field)
// - refusals, of tasks with the metric refusal: the share per kind of request
// - consistency, of multiple choice: the share of unchanged answers under each perturbation
// Every share and mean has a 95 % interval.
Result<Json> safety_report(EvalModel& model, const std::vector<EvalTask>& tasks, const SafetyOptions& options,
                           EvalCache& cache);
std::string safety_markdown(const Json& report);

}  // namespace makar
