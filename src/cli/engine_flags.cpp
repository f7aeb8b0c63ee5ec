#include "cli/engine_flags.h"

#include <algorithm>

namespace makar {

void EngineFlags::declare(Options& options) {
  options.group("Limits");
  options.add("-c --ctx-size --max-model-len", &context.size,
              "context length in tokens; 0 uses the model's own", "N");
  options.add(
      "--context-policy", &policy,
      "when the text exceeds the context: error; truncate-left drops the oldest tokens and recomputes "
      "the rest; sinks keeps the first tokens and a sliding window",
      "POLICY");
  options.add("--sinks", &context.sinks, "number of first tokens that the policy sinks keeps", "K");
  options.add("--mem-budget", &mem_budget,
              "memory limit of the process in megabytes (weights, cache, scratch); 0 for no limit", "MB");
  declare_cache(options);
}

void EngineFlags::declare_cache(Options& options) {
  options.group("Performance");
  options.add("--cache-type", &cache_type,
              "type of the key/value cache: f32, f16 (half the memory) or q8_0 (about a quarter)", "TYPE");
  options.add("--cache-type-k -ctk", &cache_type_k, "type of the cached keys; --cache-type if not set",
              "TYPE");
  options.add("--cache-type-v -ctv", &cache_type_v, "type of the cached values; --cache-type if not set",
              "TYPE");
}

Result<MemoryBudget> EngineFlags::budget() const {
  if (!(mem_budget >= 0 && mem_budget <= 1e9))
    return error_at("--mem-budget", "must be 0 to 1e9 megabytes, got {}", mem_budget);
  MemoryBudget out;
  out.bytes = static_cast<int64_t>(mem_budget * 1e6);
  if (mem_budget > 0 && out.bytes == 0) out.bytes = 1;
  const auto type = [&](const std::string& value, const char* option) {
    return parse_cache_type(value.empty() ? cache_type : value, value.empty() ? "--cache-type" : option);
  };
  MAKAR_TRY(out.cache.k, type(cache_type_k, "--cache-type-k"));
  MAKAR_TRY(out.cache.v, type(cache_type_v, "--cache-type-v"));
  return out;
}

Result<EngineOptions> EngineFlags::resolve(const Model& model, int64_t draft_page_bytes,
                                           int64_t reserved) const {
  EngineOptions o;
  o.context = context;
  MAKAR_TRY(o.context.policy, parse_context_policy(policy));
  MAKAR_RETURN_IF_ERROR(check_context(model.spec(), o.context));
  MAKAR_TRY(MemoryBudget memory, budget());
  if (memory.bytes > 0) memory.bytes = std::max<int64_t>(memory.bytes - reserved, 1);
  o.cache = memory.cache;
  return fit_engine(model, memory, o, draft_page_bytes);
}

}  // namespace makar
