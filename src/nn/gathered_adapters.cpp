#include "nn/gathered_adapters.h"

#include "ops/bf16.h"

namespace makar {

std::vector<int32_t> sequence_adapters(const Context& ctx, const ops::AttentionBatch& batch) {
  std::vector<int32_t> out;
  if (ctx.row_adapters.empty()) return out;
  for (const ops::SequenceRows& s : batch.rows)
    out.push_back(s.q_rows > 0 ? ctx.row_adapters[static_cast<size_t>(s.q_start)] : -1);
  return out;
}

std::vector<int32_t> source_adapters(const Context& ctx, const ops::AttentionBatch& batch,
                                     const std::vector<int64_t>& lengths) {
  const std::vector<int32_t> by_sequence = sequence_adapters(ctx, batch);
  std::vector<int32_t> out;
  for (size_t i = 0; i < by_sequence.size(); ++i)
    out.insert(out.end(), static_cast<size_t>(lengths[i]), by_sequence[i]);
  return out;
}

Tensor linear_of_sequence(Context& ctx, const Linear& linear, const Tensor& x) {
  if (ctx.row_adapters.empty()) return ops::cast_to_f32(ctx, linear(ctx, x));
  const GatheredAdapters scope(ctx, std::vector<int32_t>(static_cast<size_t>(x.dim(0)), ctx.row_adapters[0]));
  return ops::cast_to_f32(ctx, linear(ctx, x));
}

}  // namespace makar
