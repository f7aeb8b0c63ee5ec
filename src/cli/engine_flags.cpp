#include "cli/engine_flags.h"

#include <algorithm>

namespace makar {

void EngineFlags::declare(Options& options) {
  options.add("--mem-budget", &mem_budget, "megabytes for the cache of keys and values; 0 means no bound",
              "MB");
  options.add("--cache-type", &cache_type,
              "keys and values are kept in f32, f16 (half the memory) or q8_0 (about a quarter)", "TYPE");
  options.add("-ctk --cache-type-k", &cache_type_k, "the same for keys alone", "TYPE");
  options.add("-ctv --cache-type-v", &cache_type_v, "the same for values alone", "TYPE");
  options.add("-c --ctx-size --max-model-len", &context.size,
              "tokens in sight at most; 0 means the model's positions", "N");
  options.add("--context-policy", &policy,
              "where a text outgrows the context: error, truncate-left (forget the oldest tokens and compute "
              "the rest again) or sinks (keep the first ones and a window)",
              "POLICY");
  options.add("--sinks", &context.sinks, "first tokens that stay in sight with sinks", "K");
}

Result<EngineOptions> EngineFlags::resolve(const ModelSpec& spec) const {
  EngineOptions o;
  o.context = context;
  MAKAR_TRY(o.context.policy, parse_context_policy(policy));
  MAKAR_CHECK_OK(check_context(spec, o.context));
  const auto type = [&](const std::string& own, const char* option) {
    return parse_cache_type(own.empty() ? cache_type : own, own.empty() ? "--cache-type" : option);
  };
  MAKAR_TRY(o.cache.k, type(cache_type_k, "--cache-type-k"));
  MAKAR_TRY(o.cache.v, type(cache_type_v, "--cache-type-v"));
  if (!(mem_budget >= 0 && mem_budget <= 1e9))
    return error_at("--mem-budget", "must be 0 to 1e9 megabytes, got {}", mem_budget);
  if (mem_budget > 0 && spec.decoder) {
    const KvCache probe(*spec.decoder, 0, 0, o.cache);
    const double pages = mem_budget * 1e6 / static_cast<double>(probe.page_bytes());
    if (pages < 1)
      return error_of(Error::Kind::kLimit, "--mem-budget",
                      "{} MB hold no page; {} tokens of this model take {:.3f} MB", mem_budget,
                      KvCache::kPageRows, static_cast<double>(probe.page_bytes()) / 1e6);
    o.max_pages = static_cast<int64_t>(pages);
  }
  return o;
}

}  // namespace makar
