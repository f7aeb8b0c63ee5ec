#include "ops/linear.h"

#include <algorithm>

#include "ops/bf16.h"

namespace makar::ops {
namespace {

using kernels::Operand;

// Block-type weights that are decoded together in the backward pass.
constexpr int64_t kMaxDecodedWeights = int64_t{4} << 20;

// x [rows, k] row-major, reduced along its columns or along its rows.
Operand along_columns(Device& device, const Tensor& x, int64_t cols) {
  return {address_on(device, x), x.dtype(), cols, 1};
}
Operand along_rows(Device& device, const Tensor& x, int64_t cols) {
  return {address_on(device, x), x.dtype(), 1, cols};
}

}  // namespace

Tensor decode_to_f32(Device& device, const Tensor& x) {
  if (x.dtype() == DType::kF32) return x;
  if (!is_block(x.dtype()) && x.dtype() != DType::kF16 && x.dtype() != DType::kBF16)
    return x.host().to(DType::kF32).to(device.memory());
  const Tensor as_f32 = Tensor::empty(x.shape(), DType::kF32, device.memory());
  const int64_t cols = x.rank() ? x.dim(-1) : 1, rows = cols ? x.count() / cols : 0;
  device.decode({address_on(device, x), x.dtype(), as_f32.f32_address(), rows, cols});
  return as_f32;
}

// Decodes a block-type W a few rows at a time; the products accumulate in the order of the rows, so the bits
// are the same as if all of W were decoded.
void input_gradient(Device& device, int64_t m, const float* dy, const Tensor& w, kernels::GemmOutput to) {
  const int64_t out = w.dim(0), in = w.dim(1);
  const Operand a{dy, DType::kF32, out, 1};
  if (!is_block(w.dtype())) return device.gemm({m, in, out, a, along_rows(device, w, in), to});
  const int64_t max = std::max<int64_t>(1, kMaxDecodedWeights / std::max<int64_t>(in, 1));
  for (int64_t j = 0; j < out; j += max) {
    const int64_t rows = std::min(max, out - j);
    const Tensor as_f32 = decode_to_f32(device, w.slice(j, j + rows));
    device.gemm({m, in, rows, {dy + j, DType::kF32, out, 1}, along_rows(device, as_f32, in), to});
    to.accumulate = true;
  }
}

namespace {

void record_gradient(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const int64_t in = x.dim(-1), m = in ? x.count() / in : 0, out = y.dim(-1);
  const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(b);
  check(!need_w || w.dtype() == DType::kF32, "only f32 weights can be trained");
  // Keep the input only if dW needs it.
  const Tensor saved_x = need_w ? x : Tensor();
  ctx.tape->record(y, [ctx, to_x = Key(x), to_b = Key(b), saved_x, w, m, in, out, need_x, need_w,
                       need_b](const Tensor& dy) {
    Device& dev = ctx.device;
    if (need_w) {  // dW[out, in] = dY^T X, tokens in order
      const auto t = ctx.tape->target(w);
      dev.gemm({out,
                in,
                m,
                along_rows(dev, dy, out),
                along_rows(dev, saved_x, in),
                {ctx.f32(t.buffer), in, t.accumulate}});
    }
    if (need_b) {
      const auto t = ctx.tape->target(to_b);
      dev.column_sums({ctx.f32(dy), ctx.f32(t.buffer), m, out, t.accumulate});
    }
    if (need_x) {  // dX[m, in] = dY W
      const auto t = ctx.tape->target(to_x);
      input_gradient(dev, m, ctx.f32(dy), w, {ctx.f32(t.buffer), in, t.accumulate});
    }
  });
}

}  // namespace

Tensor linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
              const kernels::PackedWeight* packed) {
  if (ctx.observer) ctx.observer->observe(w, x);
  if (computes_bf16(ctx)) {
    check(!b.defined() || !w.defined() || b.count() == w.dim(0), "linear: bias and output differ in width");
    if (packed && packed->type() == DType::kBF16 && !ctx.any_needs(x, w, b)) {
      const PackedLayer one{b, packed};
      return linears(ctx, x, {&one, 1})[0];
    }
    if (!packed && (w.dtype() == DType::kF32 || w.dtype() == DType::kBF16)) {
      check(w.rank() == 2 && w.dim(1) == x.dim(-1), "linear: x and w differ in inner size");
      return linear_bf16(ctx, x, w, b);
    }
    if (any_bf16(ctx, x)) return linear(ctx, cast_to_f32(ctx, x), w, b, packed);
  }
  Device& device = ctx.device;
  const int64_t in = x.dim(-1), m = in ? x.count() / in : 0, out = packed ? packed->n() : w.dim(0);
  check(packed ? packed->k() == in : w.rank() == 2 && w.dim(1) == in, "linear: x and w differ in inner size");
  check(!b.defined() || b.count() == out, "linear: bias and output differ in width");
  Shape shape = x.shape();
  shape[-1] = out;
  Tensor y = ctx.empty(shape);
  const kernels::GemmOutput to{ctx.f32(y), out, false, ctx.f32(b)};
  const Operand a = along_columns(device, x, in);
  std::shared_ptr<const kernels::PackedWeight> temporary_pack;
  if (!packed && is_block(w.dtype()))
    packed = (temporary_pack = device.pack(along_columns(device, w, in), out, in)).get();
  if (packed) {
    const kernels::PackedProduct product{packed, to};
    device.gemm_packed({m, a, &product, 1});
  } else {
    device.gemm({m, out, in, a, along_columns(device, w, in), to});
  }
  if (ctx.any_needs(x, w, b)) record_gradient(ctx, x, w, b, y);
  return y;
}

std::vector<Tensor> linears(Context& ctx, const Tensor& input, std::span<const PackedLayer> layers) {
  const bool bf16 = computes_bf16(ctx) && std::all_of(layers.begin(), layers.end(), [](const auto& layer) {
                      return layer.packed->type() == DType::kBF16;
                    });
  const Tensor x = bf16 ? cast_to_bf16(ctx, input) : any_bf16(ctx, input) ? cast_to_f32(ctx, input) : input;
  const int64_t in = x.dim(-1), m = in ? x.count() / in : 0;
  std::vector<Tensor> out;
  std::vector<kernels::PackedProduct> products;
  std::vector<kernels::PackedProductBf16> products_bf16;
  for (const PackedLayer& layer : layers) {
    const int64_t width = layer.packed->n();
    check(layer.packed->k() == in, "linear: x and w differ in inner size");
    check(!layer.bias.defined() || layer.bias.count() == width, "linear: bias and output differ in width");
    Shape shape = x.shape();
    shape[-1] = width;
    out.push_back(ctx.empty(shape, bf16 ? DType::kBF16 : DType::kF32));
    if (bf16)
      products_bf16.push_back({layer.packed, ctx.bf16(out.back()), ctx.f32(layer.bias)});
    else
      products.push_back({layer.packed, {ctx.f32(out.back()), width, false, ctx.f32(layer.bias)}});
  }
  const auto count = static_cast<int64_t>(layers.size());
  if (bf16)
    ctx.device.gemm_packed_bf16({m, ctx.bf16(x), products_bf16.data(), count});
  else
    ctx.device.gemm_packed({m, along_columns(ctx.device, x, in), products.data(), count});
  return out;
}

Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_b) {
  if (any_bf16(ctx, a)) return matmul(ctx, cast_to_f32(ctx, a), b, transpose_b);
  check(a.rank() == 2 && b.rank() == 2, "matmul takes matrices");
  const int64_t m = a.dim(0), k = a.dim(1), n = transpose_b ? b.dim(0) : b.dim(1);
  check((transpose_b ? b.dim(1) : b.dim(0)) == k, "matmul: the inner sizes differ");
  Tensor y = ctx.empty({m, n});
  Device& device = ctx.device;
  device.gemm({m,
               n,
               k,
               along_columns(device, a, k),
               transpose_b ? along_columns(device, b, k) : along_rows(device, b, n),
               {ctx.f32(y), n}});
  if (!ctx.any_needs(a, b)) return y;
  ctx.tape->record(y, [ctx, a, b, m, n, k, transpose_b](const Tensor& dy) {
    Device& dev = ctx.device;
    if (ctx.needs(a)) {  // dA[m, k] = dY B^T: reduce over n
      const auto t = ctx.tape->target(a);
      dev.gemm({m,
                k,
                n,
                along_columns(dev, dy, n),
                transpose_b ? along_rows(dev, b, k) : along_columns(dev, b, n),
                {ctx.f32(t.buffer), k, t.accumulate}});
    }
    if (ctx.needs(b)) {
      const auto t = ctx.tape->target(b);
      if (transpose_b)  // dB[n, k] = dY^T A
        dev.gemm(
            {n, k, m, along_rows(dev, dy, n), along_rows(dev, a, k), {ctx.f32(t.buffer), k, t.accumulate}});
      else  // dB[k, n] = A^T dY
        dev.gemm(
            {k, n, m, along_rows(dev, a, k), along_rows(dev, dy, n), {ctx.f32(t.buffer), n, t.accumulate}});
    }
  });
  return y;
}

}  // namespace makar::ops
