#include "nn/cached_rows.h"

#include "ops/bf16.h"
#include "ops/shape.h"

namespace makar {

void write_rows(ForwardContext& f, const Tensor& rows, const ops::AttentionBatch& batch,
                const AttentionSpec& cache_spec, int64_t layer) {
  Context& ctx = f.ops;
  const int64_t width = cache_spec.kv_heads * cache_spec.head_dim, padding = width - rows.dim(1);
  check(padding >= 0, "a cached row is wider than its layer");
  const Tensor values = padding > 0 ? ops::concat(ctx, {rows, ctx.zeros({rows.dim(0), padding})}, -1) : rows;
  ops::store_keys(ctx, ctx.zeros(values.shape()), values, f.cache->keys(layer), batch, cache_spec.kv_heads);
}

Tensor read_rows(ForwardContext& f, std::vector<ops::SequenceRows> sequences, const Tensor& pages,
                 const AttentionSpec& cache_spec, int64_t layer) {
  Context& ctx = f.ops;
  int64_t rows = 0;
  for (const ops::SequenceRows& s : sequences) rows += s.q_rows;
  ops::AttentionBatch batch = ops::attention_batch(ctx, std::move(sequences));
  batch.pages = pages;
  ops::AttentionOptions one_key;
  one_key.heads = one_key.kv_heads = cache_spec.kv_heads, one_key.head_dim = cache_spec.head_dim;
  one_key.window = 1;
  return ops::attend_cached(ctx, ctx.zeros({rows, cache_spec.kv_heads * cache_spec.head_dim}),
                            f.cache->keys(layer), batch, one_key);
}

void write_source(ForwardContext& f, const Tensor& encoded, const AttentionSpec& cache_spec, size_t slot,
                  int64_t layer) {
  f.cache->begin_cross(slot, layer, encoded.dim(0));
  ops::AttentionBatch source = ops::attention_batch(f.ops, {{0, encoded.dim(0), 0, encoded.dim(0), 0, 0}});
  source.pages = f.ops.upload(f.cache->cross_page_addresses(slot));
  write_rows(f, ops::cast_to_f32(f.ops, encoded), source, cache_spec, layer);
}

Source source_of(ForwardContext& f, const AttentionInputs& in, const AttentionSpec& cache_spec, int64_t width,
                 int64_t layer) {
  Context& ctx = f.ops;
  Source out;
  for (const ops::SequenceRows& s : in.cross.rows) out.lengths.push_back(s.kv_rows);
  if (f.cache) {
    std::vector<ops::SequenceRows> sequences;
    int64_t at = 0;
    for (const ops::SequenceRows& s : in.cross.rows) {
      sequences.push_back({at, s.kv_rows, 0, s.kv_rows, 0, s.first_page});
      at += s.kv_rows;
    }
    const Tensor cached = read_rows(f, std::move(sequences), in.cross.pages, cache_spec, layer);
    out.rows =
        cached.dim(1) == width ? cached : ops::split(ctx, cached, {width, cached.dim(1) - width}, -1)[0];
  } else {
    out.rows = ops::cast_to_f32(ctx, in.encoded);
  }
  out.by_sequence = ops::split(ctx, out.rows, out.lengths, 0);
  return out;
}

}  // namespace makar
