// Prompts for reinforcement learning, with the records that rewards compare answers with.
#pragma once
#include "data/datasets.h"
#include "data/spool.h"
#include "train/conversation.h"

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
// The limit of prompts that another model gets with its own system message; "": there is none.
struct SystemPromptLimit {
  std::string system;
  int64_t tokens = 0;
};
// Reads the prompts of all datasets: `prompt`, `messages` (without an answer at the end), `conversations`,
// `instruction`. Prompts of more than `max_prompt_tokens` tokens, or beyond the limit with the system
// message, are bad records.
Result<PolicyPrompts> open_policy_prompts(const DatasetOptions& options, const ConversationEncoder& encoder,
                                          int64_t max_prompt_tokens, Json& identity,
                                          const SystemPromptLimit& with_system_limit = {});

}  // namespace makar
