// Engine options of a command: memory, cache types, context.
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
  void declare_cache(Options& options);  // only the cache types
  // The memory limit and the cache types. Errors: an unknown name, a number out of bounds.
  Result<MemoryBudget> budget() const;
  // The engine's options within the budget, after all models are loaded. `draft_page_bytes`: bytes per page
  // that another cache (of a draft model) needs; `reserved`: bytes reserved for other uses. Errors: a policy
  // that the model does not support, too little memory.
  Result<EngineOptions> resolve(const Model& model, int64_t draft_page_bytes = 0, int64_t reserved = 0) const;
};

}  // namespace makar
