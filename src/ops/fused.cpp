#include "ops/fused.h"

#include "ops/bf16.h"

namespace makar::ops {
namespace {

// Arguments of fused products, with the buffers that a device may write: those of products in bf16, or of
// block types.
struct Products {
  DType type = DType::kBF16;  // of the results
  Tensor normed, stats;
  std::vector<Tensor> out;
  std::vector<kernels::PackedProductBf16> in_bf16;
  std::vector<kernels::PackedProduct> in_f32;
  kernels::NormBf16 norm{};

  Products(Context& ctx, int64_t rows, int64_t width, std::span<const PackedLayer> layers) {
    const bool blocks = is_block(layers[0].packed->type());
    if (blocks) type = DType::kF32;
    for (const PackedLayer& layer : layers) {
      const int64_t n = layer.packed->n();
      const DType packed = layer.packed->type();
      check(layer.packed->k() == width && (blocks ? is_block(packed) : packed == DType::kBF16),
            "fused products: weights in bf16, or all of block types, for this width");
      check(!layer.bias.defined() || layer.bias.count() == n, "linear: bias and output differ in width");
      out.push_back(ctx.empty({rows, n}, type));
      if (blocks)
        in_f32.push_back({layer.packed, {ctx.f32(out.back()), n, false, ctx.f32(layer.bias)}});
      else
        in_bf16.push_back({layer.packed, ctx.bf16(out.back()), ctx.f32(layer.bias)});
    }
  }
  bool blocks() const { return type == DType::kF32; }
  void add_norm(Context& ctx, const Tensor& x, const RmsNorm& rms) {
    check(!ctx.tape && x.rank() == 2 && rms.weight.count() == x.dim(1),
          "fused products: rows for the norm, and no gradient");
    normed = ctx.empty(x.shape(), DType::kBF16), stats = ctx.empty({x.dim(0)});
    norm = {true,     ctx.f32(x), ctx.f32(rms.weight), nullptr, ctx.bf16(normed), ctx.f32(stats), x.dim(0),
            x.dim(1), rms.eps,    rms.offset};
  }
  // `x`: the activations, those that the norm writes if there is one. `gated`, or `residual` and `sum`, may
  // be undefined.
  void run(Context& ctx, const Tensor& x, const Tensor& gated, Activation kind, const Tensor& residual,
           const Tensor& sum) const {
    const int64_t rows = x.dim(0), width = x.dim(1), count = static_cast<int64_t>(out.size());
    const kernels::NormBf16* before = normed.defined() ? &norm : nullptr;
    const float* added = residual.defined() ? ctx.f32(residual) : nullptr;
    float* total = sum.defined() ? ctx.f32(sum) : nullptr;
    if (blocks())
      ctx.device.fused_products({{rows, {ctx.address(x), x.dtype(), width, 1}, in_f32.data(), count},
                                 before,
                                 gated.defined() ? ctx.f32(gated) : nullptr,
                                 kind,
                                 added,
                                 total});
    else
      ctx.device.fused_products_bf16({{rows, ctx.bf16(x), in_bf16.data(), count},
                                      before,
                                      gated.defined() ? ctx.bf16(gated) : nullptr,
                                      kind,
                                      added,
                                      total});
  }
};

}  // namespace

std::vector<Tensor> normed_linears(Context& ctx, const Tensor& x, const RmsNorm& norm,
                                   std::span<const PackedLayer> layers) {
  Products p(ctx, x.dim(0), x.dim(1), layers);
  p.add_norm(ctx, x, norm);
  p.run(ctx, p.normed, {}, Activation::kSilu, {}, {});
  return p.out;
}

Tensor normed_gate(Context& ctx, const Tensor& x, const RmsNorm& norm, const PackedLayer& gate,
                   const PackedLayer& up, Activation kind) {
  const PackedLayer layers[] = {gate, up};
  Products p(ctx, x.dim(0), x.dim(1), layers);
  check(p.out[0].shape() == p.out[1].shape(), "gated: gate and up differ in shape");
  p.add_norm(ctx, x, norm);
  Tensor y = ctx.empty(p.out[0].shape(), p.type);
  p.run(ctx, p.normed, y, kind, {}, {});
  return y;
}

Tensor added_linear(Context& ctx, const Tensor& residual, const Tensor& x, const PackedLayer& layer) {
  const Products p(ctx, x.dim(0), x.dim(1), {&layer, 1});
  check(residual.shape() == p.out[0].shape(), "added_linear: the residual has the shape of the output");
  Tensor y = ctx.empty(residual.shape());
  p.run(ctx, x, {}, Activation::kSilu, residual, y);
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
  ctx.device.decode_attention_bf16({attention_shape(ctx, batch, o), ctx.address(q), ctx.address(k),
                                    ctx.address(v), q.dtype(), rope ? ctx.f32(table.cos) : nullptr,
                                    rope ? ctx.f32(table.sin) : nullptr, 2 * half, rope && rope->interleaved,
                                    cache_layer(ctx, cache, batch), ctx.bf16(out)});
  return out;
}

}  // namespace makar::ops
