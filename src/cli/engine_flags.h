// Options of the engine behind a command: memory, cache types, the context.
#pragma once
#include <string>

#include "base/options.h"
#include "infer/engine.h"

namespace makar {

struct EngineFlags {
  double mem_budget = 0;  // megabytes
  std::string cache_type = "f32", cache_type_k, cache_type_v, policy = "error";
  ContextOptions context;

  void declare(Options& options);
  // Errors: an unknown name, a policy the model cannot follow.
  Result<EngineOptions> resolve(const ModelSpec& spec) const;
};

}  // namespace makar
