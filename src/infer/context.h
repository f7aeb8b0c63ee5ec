// What happens when a text outgrows the positions a model knows.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace makar {

enum class ContextPolicy {
  kError,         // the request is refused
  kTruncateLeft,  // the oldest tokens are forgotten, and what is left is computed again
  kSinks,         // attention sinks: the first tokens and a window stay in sight, nothing is computed again
};

struct ContextOptions {
  ContextPolicy policy = ContextPolicy::kError;
  int64_t size = 0;  // tokens in sight at most; 0: the model's positions
  int64_t sinks = 4;
};

// "error", "truncate-left" or "sinks".
Result<ContextPolicy> parse_context_policy(const std::string& name);

// Tokens in sight at most; 0 where the model sets no bound.
int64_t context_size(const ModelSpec& spec, const ContextOptions& options);

// Whether the model can follow the policy: sinks need positions that are distances (rotary, ALiBi).
Status check_context(const ModelSpec& spec, const ContextOptions& options);

// What the attention of a forward is told: nothing unless the policy is kSinks.
SinkWindow sink_window(const ModelSpec& spec, const ContextOptions& options);

// Of a prompt that leaves no room: its last tokens. At least half of the context is kept, whatever is to be
// written.
void truncate_left(std::vector<int64_t>& prompt, int64_t size, int64_t max_new_tokens);

}  // namespace makar
