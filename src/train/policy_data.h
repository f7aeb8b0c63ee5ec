// Prompts for reinforcement learning, with the records that rewards compare answers with.
#pragma once
#include "data/datasets.h"
#include "data/spool.h"
#include "train/conversation.h"
#include "train/reward_rules.h"

namespace makar {

struct PolicyPrompt {
  std::vector<int64_t> ids;   // with the generation prompt
  std::string turns, record;  // as JSON
  static constexpr auto fields() {
    return std::tuple(&PolicyPrompt::ids, &PolicyPrompt::turns, &PolicyPrompt::record);
  }
};

// Stored in temporary files in `folder`.
struct PolicyPrompts {
  explicit PolicyPrompts(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<PolicyPrompt> train, validation;
  BadRecords bad;  // of the file read last
};
// The turns of a prompt with this system message instead of their own.
Json with_system(const Json& turns, const std::string& system);
// What the prompts of a run must fulfil.
struct PromptChecks {
  std::span<const RewardTerm> rewards = {};  // every record has the fields that they need
  // A system message that another model reads with the prompts, and the tokens that it can read; "": none.
  std::string system;
  int64_t max_tokens_with_system = 0;
};
// Reads the prompts of all datasets: `prompt`, `messages` (without an answer at the end), `conversations`,
// `instruction`. Prompts of more than `max_prompt_tokens` tokens, or beyond the limit with the system
// message, are bad records. Error: a record lacks what rewards need.
Result<PolicyPrompts> open_policy_prompts(const DatasetOptions& options, const ConversationEncoder& encoder,
                                          int64_t max_prompt_tokens, Json& identity,
                                          const PromptChecks& checks = {});

}  // namespace makar
