// Options of the engine behind a command: memory, cache types, the context.
#pragma once
#include <string>

#include "base/options.h"
#include "infer/memory_plan.h"

namespace makar {

struct EngineFlags {
  double mem_budget = 0;  // megabytes
  std::string cache_type = "f32", cache_type_k, cache_type_v, policy = "error";
  ContextOptions context;

  void declare(Options& options);
  void declare_cache(Options& options);  // the types of keys and values alone
  // Errors: an unknown name, a number out of bounds.
  Result<MemoryBudget> budget() const;
  // The engine within the budget, when all models are loaded. `beside`: bytes that another cache takes for
  // the tokens of a page; `aside`: bytes kept for others. Errors: a policy the model cannot follow, too
  // little memory.
  Result<EngineOptions> resolve(const Model& model, int64_t beside = 0, int64_t aside = 0) const;
};

}  // namespace makar
