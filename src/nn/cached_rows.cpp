#include "nn/cached_rows.h"

#include "ops/bf16.h"
#include "ops/shape.h"

namespace makar {

void write_rows(ForwardContext& f, const Tensor& rows, const ops::AttentionBatch& batch,
                const AttentionSpec& stored, int64_t layer) {
  Context& ctx = f.ops;
  const int64_t width = stored.kv_heads * stored.head_dim, missing = width - rows.dim(1);
  check(missing >= 0, "a cached row is wider than its layer");
  const Tensor values = missing > 0 ? ops::concat(ctx, {rows, ctx.zeros({rows.dim(0), missing})}, -1) : rows;
  ops::store_keys(ctx, ctx.zeros(values.shape()), values, f.cache->keys(layer), batch, stored.kv_heads);
}

Tensor read_rows(ForwardContext& f, std::vector<ops::SequenceRows> which, const Tensor& pages,
                 const AttentionSpec& stored, int64_t layer) {
  Context& ctx = f.ops;
  int64_t rows = 0;
  for (const ops::SequenceRows& s : which) rows += s.q_rows;
  ops::AttentionBatch batch = ops::attention_batch(ctx, std::move(which));
  batch.pages = pages;
  ops::AttentionOptions one_key;
  one_key.heads = one_key.kv_heads = stored.kv_heads, one_key.head_dim = stored.head_dim;
  one_key.window = 1;
  return ops::attend_cached(ctx, ctx.zeros({rows, stored.kv_heads * stored.head_dim}), f.cache->keys(layer),
                            batch, one_key);
}

void write_source(ForwardContext& f, const Tensor& encoded, const AttentionSpec& stored, size_t slot,
                  int64_t layer) {
  f.cache->begin_cross(slot, layer, encoded.dim(0));
  ops::AttentionBatch source = ops::attention_batch(f.ops, {{0, encoded.dim(0), 0, encoded.dim(0), 0, 0}});
  source.pages = f.ops.upload(f.cache->cross_page_addresses(slot));
  write_rows(f, ops::widened(f.ops, encoded), source, stored, layer);
}

Source source_of(ForwardContext& f, const AttentionInputs& in, const AttentionSpec& stored, int64_t width,
                 int64_t layer) {
  Context& ctx = f.ops;
  Source out;
  for (const ops::SequenceRows& s : in.cross.rows) out.lengths.push_back(s.kv_rows);
  if (f.cache) {
    std::vector<ops::SequenceRows> which;
    int64_t at = 0;
    for (const ops::SequenceRows& s : in.cross.rows) {
      which.push_back({at, s.kv_rows, 0, s.kv_rows, 0, s.first_page});
      at += s.kv_rows;
    }
    const Tensor read = read_rows(f, std::move(which), in.cross.pages, stored, layer);
    out.rows = read.dim(1) == width ? read : ops::split(ctx, read, {width, read.dim(1) - width}, -1)[0];
  } else {
    out.rows = ops::widened(ctx, in.encoded);
  }
  out.each = ops::split(ctx, out.rows, out.lengths, 0);
  return out;
}

}  // namespace makar
