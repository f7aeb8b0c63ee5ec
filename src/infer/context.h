// What to do when a text is longer than the context: refuse it, truncate it, or use sinks and a sliding
// window.
#pragma once
#include <string>
#include <vector>

#include "models/model.h"

namespace makar {

enum class ContextPolicy {
  kError,         // reject the request
  kTruncateLeft,  // drop the oldest tokens and recompute the rest
  kSinks,         // attention sinks: attend to the first tokens and a window, no recomputation
};

struct ContextOptions {
  ContextPolicy policy = ContextPolicy::kError;
  int64_t size = 0;  // maximum visible tokens; 0: the model's limit
  int64_t sinks = 4;
};

// "error", "truncate-left" or "sinks".
Result<ContextPolicy> parse_context_policy(const std::string& name);

// Maximum visible tokens; 0 if the model sets no limit.
int64_t context_size(const ModelSpec& spec, const ContextOptions& options);

// Whether the model supports the policy: sinks need relative positions (rotary, ALiBi).
Status check_context(const ModelSpec& spec, const ContextOptions& options);

// Sinks and window for the attention of a forward pass; off unless the policy is kSinks.
SinkWindow sink_window(const ModelSpec& spec, const ContextOptions& options);

// If the prompt leaves no space for the answer, keeps only its last tokens: at least half of the context,
// whatever max_new_tokens is.
void truncate_left(std::vector<int64_t>& prompt, int64_t size, int64_t max_new_tokens);

}  // namespace makar
