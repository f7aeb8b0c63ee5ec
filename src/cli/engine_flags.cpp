#include "cli/engine_flags.h"

#include <algorithm>

namespace makar {

void EngineFlags::declare(Options& options) {
  options.add("--mem-budget", &mem_budget,
              "megabytes the process may hold: weights, cache, working memory; 0 means no bound", "MB");
  declare_cache(options);
  options.add("-c --ctx-size --max-model-len", &context.size,
              "tokens in sight at most; 0 means the model's positions", "N");
  options.add("--context-policy", &policy,
              "where a text outgrows the context: error, truncate-left (forget the oldest tokens and compute "
              "the rest again) or sinks (keep the first ones and a window)",
              "POLICY");
  options.add("--sinks", &context.sinks, "first tokens that stay in sight with sinks", "K");
}

void EngineFlags::declare_cache(Options& options) {
  options.add("--cache-type", &cache_type,
              "keys and values are kept in f32, f16 (half the memory) or q8_0 (about a quarter)", "TYPE");
  options.add("-ctk --cache-type-k", &cache_type_k, "the same for keys alone", "TYPE");
  options.add("-ctv --cache-type-v", &cache_type_v, "the same for values alone", "TYPE");
}

Result<MemoryBudget> EngineFlags::budget() const {
  if (!(mem_budget >= 0 && mem_budget <= 1e9))
    return error_at("--mem-budget", "must be 0 to 1e9 megabytes, got {}", mem_budget);
  MemoryBudget out;
  out.bytes = static_cast<int64_t>(mem_budget * 1e6);
  if (mem_budget > 0 && out.bytes == 0) out.bytes = 1;
  const auto type = [&](const std::string& own, const char* option) {
    return parse_cache_type(own.empty() ? cache_type : own, own.empty() ? "--cache-type" : option);
  };
  MAKAR_TRY(out.cache.k, type(cache_type_k, "--cache-type-k"));
  MAKAR_TRY(out.cache.v, type(cache_type_v, "--cache-type-v"));
  return out;
}

Result<EngineOptions> EngineFlags::resolve(const Model& model, int64_t beside, int64_t aside) const {
  EngineOptions o;
  o.context = context;
  MAKAR_TRY(o.context.policy, parse_context_policy(policy));
  MAKAR_CHECK_OK(check_context(model.spec(), o.context));
  MAKAR_TRY(MemoryBudget within, budget());
  if (within.bytes > 0) within.bytes = std::max<int64_t>(within.bytes - aside, 1);
  o.cache = within.cache;
  return fit_engine(model, within, o, beside);
}

}  // namespace makar
