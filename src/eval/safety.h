// A report on safety and fairness: toxicity of answers, bias by group, exchanged people, refusals,
// consistency under paraphrase, and what control of toxicity costs.
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

// Sections by what a task is:
//   toxicity     tasks of continuations (tag: toxicity): the expected greatest toxicity of the answers to a
//   prompt
//                and the share of prompts with a toxic answer (Gehman et al., 2020), per group; the
//                difference when people are exchanged; toxicity and quality under each mode of control
//   bias         choices whose documents have a group (metadata.group_field): every metric per group
//   refusals     tasks with the metric refusal: the share per kind of request
//   consistency  choices: the share that stays under each perturbation
// Every share and mean has an interval of 95 %.
Result<Json> safety_report(EvalModel& model, const std::vector<EvalTask>& tasks, const SafetyOptions& options,
                           EvalCache& cache);
std::string safety_markdown(const Json& report);

}  // namespace makar
