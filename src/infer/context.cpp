#include "infer/context.h"

#include <algorithm>

namespace makar {

Result<ContextPolicy> parse_context_policy(const std::string& name) {
  if (name == "error") return ContextPolicy::kError;
  if (name == "truncate-left") return ContextPolicy::kTruncateLeft;
  if (name == "sinks") return ContextPolicy::kSinks;
  return error_at("`program.context_policy`", "expected error, truncate-left or sinks, got '{}'", name);
}

int64_t context_size(const ModelSpec& spec, const ContextOptions& o) {
  if (o.size <= 0) return spec.max_positions;
  return spec.max_positions > 0 ? std::min(o.size, spec.max_positions) : o.size;
}

Status check_context(const ModelSpec& spec, const ContextOptions& o) {
  if (o.size < 0) return error_at("`program.ctx_size`", "must be at least 0, got {}", o.size);
  if (o.policy != ContextPolicy::kSinks) return Done{};
  if (!spec.continues_text())
    return error_of(Error::Kind::kUnsupported, "`program.context_policy`",
                    "sinks are for decoder-only models, this is a {}", spec.architecture);
  bool relative_positions = spec.decoder->embedding.positions == PositionKind::kNone;
  for (const BlockSpec& b : spec.decoder->blocks) {
    const AttentionSpec& a = b.attention;
    relative_positions = relative_positions && a.bias != BiasKind::kT5 && !a.alibi_rounded &&
                         !(a.rope && ops::depends_on_length(*a.rope));
  }
  if (!relative_positions)
    return error_of(Error::Kind::kUnsupported, "`program.context_policy`",
                    "sinks need relative positions (rotary or ALiBi), which a {} does not have; use "
                    "truncate-left",
                    spec.architecture);
  const int64_t size = context_size(spec, o);
  if (size <= 0)
    return error_at("`program.ctx_size`", "the model sets no limit; set the context length in tokens");
  if (o.sinks < 1 || o.sinks > KvCache::kPageRows || o.sinks >= size)
    return error_at("`program.sinks`", "must be 1 to {}, got {}",
                    std::min<int64_t>(KvCache::kPageRows, size - 1), o.sinks);
  return Done{};
}

SinkWindow sink_window(const ModelSpec& spec, const ContextOptions& o) {
  if (o.policy != ContextPolicy::kSinks) return {};
  return {o.sinks, context_size(spec, o) - o.sinks};
}

void truncate_left(std::vector<int64_t>& prompt, int64_t size, int64_t max_new_tokens) {
  if (size <= 0) return;
  const int64_t keep = std::max(size - max_new_tokens + 1, (size + 1) / 2);
  const int64_t extra = static_cast<int64_t>(prompt.size()) - keep;
  if (extra > 0) prompt.erase(prompt.begin(), prompt.begin() + extra);
}

}  // namespace makar
