#include "ops/fused.h"

#include "ops/bf16.h"

namespace makar::ops {
namespace {

// Arguments of fused products, with the buffers that a device may write.
struct Products {
  Tensor normed, stats;
  std::vector<Tensor> out;
  std::vector<kernels::PackedProductBf16> products;
  kernels::NormBf16 norm{};
  kernels::FusedProductsBf16 args{};
};

void add_products(Context& ctx, Products& p, int64_t rows, int64_t width, const kernels::Bf16* a,
                  std::span<const PackedLayer> layers) {
  for (const PackedLayer& layer : layers) {
    const int64_t n = layer.packed->n();
    check(layer.packed->k() == width && layer.packed->type() == DType::kBF16,
          "fused products: weights in bf16 for this width");
    check(!layer.bias.defined() || layer.bias.count() == n, "linear: bias and output differ in width");
    p.out.push_back(ctx.empty({rows, n}, DType::kBF16));
    p.products.push_back({layer.packed, ctx.bf16(p.out.back()), ctx.f32(layer.bias)});
  }
  p.args.products = {rows, a, p.products.data(), static_cast<int64_t>(p.products.size())};
}

void add_norm(Context& ctx, Products& p, const Tensor& x, const RmsNorm& norm,
              std::span<const PackedLayer> layers) {
  check(!ctx.tape && x.rank() == 2 && norm.weight.count() == x.dim(1),
        "fused products: rows for the norm, and no gradient");
  const int64_t rows = x.dim(0), width = x.dim(1);
  p.normed = ctx.empty(x.shape(), DType::kBF16), p.stats = ctx.empty({rows});
  p.norm = {true,  ctx.f32(x), ctx.f32(norm.weight), nullptr, ctx.bf16(p.normed), ctx.f32(p.stats), rows,
            width, norm.eps,   norm.offset};
  add_products(ctx, p, rows, width, ctx.bf16(p.normed), layers);
  p.args.norm = &p.norm;
}

}  // namespace

std::vector<Tensor> normed_linears(Context& ctx, const Tensor& x, const RmsNorm& norm,
                                   std::span<const PackedLayer> layers) {
  Products p;
  add_norm(ctx, p, x, norm, layers);
  ctx.device.fused_products_bf16(p.args);
  return p.out;
}

Tensor normed_gate(Context& ctx, const Tensor& x, const RmsNorm& norm, const PackedLayer& gate,
                   const PackedLayer& up, Activation kind) {
  Products p;
  const PackedLayer layers[] = {gate, up};
  add_norm(ctx, p, x, norm, layers);
  check(p.out[0].shape() == p.out[1].shape(), "gated: gate and up differ in shape");
  Tensor y = ctx.empty(p.out[0].shape(), DType::kBF16);
  p.args.gated = ctx.bf16(y), p.args.kind = kind;
  ctx.device.fused_products_bf16(p.args);
  return y;
}

Tensor added_linear(Context& ctx, const Tensor& residual, const Tensor& x, const PackedLayer& layer) {
  Products p;
  add_products(ctx, p, x.dim(0), x.dim(1), ctx.bf16(x), {&layer, 1});
  check(residual.shape() == p.out[0].shape(), "added_linear: the residual has the shape of the output");
  Tensor y = ctx.empty(residual.shape());
  p.args.residual = ctx.f32(residual), p.args.sum = ctx.f32(y);
  ctx.device.fused_products_bf16(p.args);
  return y;
}

Tensor attend_next(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const RopeOptions* rope,
                   const RopeTable& table, const CachedKeys& cache, const AttentionBatch& batch,
                   const AttentionOptions& o) {
  const int64_t rows = q.dim(0), half = rope ? rope->rotary / 2 : 0;
  check(cache.k_type == DType::kBF16 && attends_bf16(ctx, batch, o) && o.sinks == 0 && !ctx.tape,
        "attend_next: no kernel for this attention");
  check(q.dim(1) == o.heads * o.head_dim && k.dim(1) == o.kv_heads * o.head_dim && k.shape() == v.shape() &&
            k.dim(0) == rows && static_cast<int64_t>(batch.rows.size()) == rows,
        "attend_next: widths, heads and rows disagree");
  check(!rope || (table.cos.dim(0) == rows && table.cos.dim(1) == half && rope->rotary <= o.head_dim),
        "rope: shapes disagree");
  const Tensor out = ctx.empty(q.shape(), DType::kBF16);
  ctx.device.decode_attention_bf16({attention_shape(ctx, batch, o), ctx.bf16(q), ctx.bf16(k), ctx.bf16(v),
                                    rope ? ctx.f32(table.cos) : nullptr, rope ? ctx.f32(table.sin) : nullptr,
                                    2 * half, rope && rope->interleaved, cache_layer(ctx, cache, batch),
                                    ctx.bf16(out)});
  return out;
}

}  // namespace makar::ops
