// Best-of-n: several sampled answers to a prompt and their rewards, as training data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct RewardedAnswer {
  std::string text;
  double reward = 0;
  bool finished = true;  // false: truncated at the length limit
};

enum class BestForm {
  kBest,    // conversations with the best answers (rejection sampling; Touvron et al., 2023)
  kPairs,   // the best and the worst answer as chosen and rejected
  kRanked,  // all answers with ranks
};
std::optional<BestForm> best_form_named(const std::string& name);
std::vector<std::string> best_form_names();

struct BestOptions {
  BestForm form = BestForm::kBest;
  int64_t keep = 1;  // kBest: answers per prompt
  // Drops worse answers (kBest), or all answers if the best one is worse (kPairs, kRanked).
  std::optional<double> min_reward;
};

// The records of one prompt, in the forms that sft, dpo and reward read; equal texts count once. A truncated
// answer is never better than a finished one: kBest leaves it out, and kPairs and kRanked have it only if its
// reward is below that of every finished answer. No record if nothing qualifies (no answer finished, all
// rewards equal, all below the minimum).
std::vector<Json> best_records(const Json& prompt, std::vector<RewardedAnswer> answers,
                               const BestOptions& options);

}  // namespace makar
