// Keeps answers below a toxicity threshold, and measures the loss of quality.
#pragma once
#include "eval/model.h"
#include "lexical/toxicity.h"

namespace makar {

struct ControlOptions {
  // reject: draw again up to `attempts` times, then give no answer. rewrite: the model rewrites a toxic
  // answer. steer: the answer grows by blocks of `block` tokens; of `candidates` blocks the least toxic one
  // is kept (blockwise decoding, Mudgal et al., 2023). none: the answer as generated.
  std::string mode = "none";
  double threshold = 0.5;
  int64_t attempts = 4, block = 8, candidates = 4;
};
std::vector<std::string> control_modes();
Status check_control(const ControlOptions& options);

struct ControlledAnswer {
  std::string text;      // empty if rejected
  double toxicity = 0;   // of the text
  int64_t attempts = 1;  // answers, rewritings or blocks that were generated for it
  bool rejected = false;
};
// One answer per request, in order.
Result<std::vector<ControlledAnswer>> controlled_answers(EvalModel& model,
                                                         std::span<const UntilRequest> requests,
                                                         const ToxicityClassifier& classifier,
                                                         const ControlOptions& options);

// {"toxicity", "toxic", "rejected", "attempts", "bits_per_byte", "distinct_2", "words"}: means over answers.
// bits_per_byte: of the answers that were not rejected, by the model's log-likelihood after their prompts.
Result<Json> control_summary(EvalModel& model, std::span<const UntilRequest> requests,
                             const std::vector<ControlledAnswer>& answers, double threshold);

}  // namespace makar
