#include "ops/linear.h"

#include <algorithm>

#include "kernels/decode_blocks.h"

namespace makar::ops {
namespace {

using kernels::Operand;

constexpr int64_t kDecoded = int64_t{4} << 20;  // weights of a block type decoded at a time, in the backward

// x [rows, k] row-major, reduced along its columns or along its rows.
Operand along_columns(const Tensor& x, int64_t cols) { return {x.raw(), x.dtype(), cols, 1}; }
Operand along_rows(const Tensor& x, int64_t cols) { return {x.raw(), x.dtype(), 1, cols}; }

// out[cols] (+)= column sums of dy[rows, cols], rows in sequence: threads change no bit, and a second
// micro-batch goes on where the first one stopped.
void column_sums(Context& ctx, const Tensor& dy, int64_t rows, int64_t cols, const Tape::Target& to) {
  constexpr int64_t kColumns = 64;
  ctx.pool.run((cols + kColumns - 1) / kColumns, [&](int64_t block) {
    const int64_t j0 = block * kColumns, width = std::min(kColumns, cols - j0);
    float* out = to.buffer.f32() + j0;
    float sum[kColumns] = {};
    if (to.accumulate) std::copy_n(out, width, sum);
    const float* row = dy.f32() + j0;
    for (int64_t i = 0; i < rows; ++i, row += cols)
      for (int64_t j = 0; j < width; ++j) sum[j] += row[j];
    std::copy_n(sum, width, out);
  });
}

}  // namespace

Tensor decoded(ThreadPool& pool, const Tensor& x) {
  if (!is_block(x.dtype())) return x.to(DType::kF32);
  Tensor wide = Tensor::empty(x.shape());
  const int64_t cols = x.dim(-1), rows = cols ? x.count() / cols : 0;
  pool.for_ranges(rows, 16, [&](int64_t begin, int64_t end) {
    kernels::decode_blocks(x.dtype(), x.raw() + bytes_of(x.dtype(), begin * cols), (end - begin) * cols,
                           wide.f32() + begin * cols);
  });
  return wide;
}

// A W of a block type is decoded a block of rows at a time; the blocks accumulate in order, so that the bits
// are those of the whole W decoded.
void input_gradient(ThreadPool& pool, int64_t m, const float* dy, const Tensor& w, kernels::GemmOutput to) {
  const int64_t out = w.dim(0), in = w.dim(1);
  const Operand a{dy, DType::kF32, out, 1};
  if (!is_block(w.dtype())) return kernels::gemm(pool, m, in, out, a, along_rows(w, in), to);
  const int64_t most = std::max<int64_t>(1, kDecoded / std::max<int64_t>(in, 1));
  for (int64_t j = 0; j < out; j += most) {
    const int64_t rows = std::min(most, out - j);
    const Tensor wide = decoded(pool, w.slice(j, j + rows));
    kernels::gemm(pool, m, in, rows, {dy + j, DType::kF32, out, 1}, along_rows(wide, in), to);
    to.accumulate = true;
  }
}

Tensor linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
              const kernels::PackedMatrix* packed) {
  if (ctx.observer) ctx.observer->see(w, x);
  const int64_t in = x.dim(-1), m = in ? x.count() / in : 0;
  const bool use_packed = packed && packed->defined();
  const int64_t out = use_packed ? packed->n() : w.dim(0);
  check(use_packed ? packed->k() == in : w.rank() == 2 && w.dim(1) == in, "linear: x and w disagree");
  check(!b.defined() || b.count() == out, "linear: the bias has another width");
  Shape shape = x.shape();
  shape[-1] = out;
  Tensor y = Tensor::empty(shape);
  const kernels::GemmOutput to{y.f32(), out, false, b.defined() ? b.f32() : nullptr};
  const Operand a = along_columns(x, in);
  if (use_packed)
    kernels::gemm(ctx.pool, m, a, *packed, to);
  else if (is_block(w.dtype()))
    kernels::gemm(ctx.pool, m, a, kernels::PackedMatrix::pack(ctx.pool, along_columns(w, in), out, in), to);
  else
    kernels::gemm(ctx.pool, m, out, in, a, along_columns(w, in), to);
  if (!ctx.any_needs(x, w, b)) return y;
  const bool need_x = ctx.needs(x), need_w = ctx.needs(w), need_b = ctx.needs(b);
  check(!need_w || w.dtype() == DType::kF32, "only f32 weights can be trained");
  // Without a wanted dW the input need not be kept.
  const Tensor kept = need_w ? x : Tensor();
  ctx.tape->record(
      y, [&ctx, to_x = Key(x), to_b = Key(b), kept, w, m, in, out, need_x, need_w, need_b](const Tensor& dy) {
        if (need_w) {  // dW[out, in] = dY^T X, tokens in sequence
          const auto t = ctx.tape->target(w);
          kernels::gemm(ctx.pool, out, in, m, along_rows(dy, out), along_rows(kept, in),
                        {t.buffer.f32(), in, t.accumulate});
        }
        if (need_b) column_sums(ctx, dy, m, out, ctx.tape->target(to_b));
        if (need_x) {  // dX[m, in] = dY W
          const auto t = ctx.tape->target(to_x);
          input_gradient(ctx.pool, m, dy.f32(), w, {t.buffer.f32(), in, t.accumulate});
        }
      });
  return y;
}

std::vector<Tensor> linears(Context& ctx, const Tensor& x, std::span<const PackedLayer> layers) {
  const int64_t in = x.dim(-1), m = in ? x.count() / in : 0;
  std::vector<Tensor> out;
  std::vector<kernels::PackedProduct> products;
  for (const PackedLayer& layer : layers) {
    const int64_t width = layer.packed->n();
    check(layer.packed->k() == in, "linear: x and w disagree");
    check(!layer.bias.defined() || layer.bias.count() == width, "linear: the bias has another width");
    Shape shape = x.shape();
    shape[-1] = width;
    out.push_back(Tensor::empty(shape));
    const float* bias = layer.bias.defined() ? layer.bias.f32() : nullptr;
    products.push_back({layer.packed, {out.back().f32(), width, false, bias}});
  }
  kernels::gemm(ctx.pool, m, along_columns(x, in), products);
  return out;
}

Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_b) {
  check(a.rank() == 2 && b.rank() == 2, "matmul takes matrices");
  const int64_t m = a.dim(0), k = a.dim(1), n = transpose_b ? b.dim(0) : b.dim(1);
  check((transpose_b ? b.dim(1) : b.dim(0)) == k, "matmul: inner sizes disagree");
  Tensor y = Tensor::empty({m, n});
  kernels::gemm(ctx.pool, m, n, k, along_columns(a, k), transpose_b ? along_columns(b, k) : along_rows(b, n),
                {y.f32(), n});
  if (!ctx.any_needs(a, b)) return y;
  ctx.tape->record(y, [&ctx, a, b, m, n, k, transpose_b](const Tensor& dy) {
    if (ctx.needs(a)) {  // dA[m, k] = dY B^T: reduce over n
      const auto t = ctx.tape->target(a);
      kernels::gemm(ctx.pool, m, k, n, along_columns(dy, n),
                    transpose_b ? along_rows(b, k) : along_columns(b, n), {t.buffer.f32(), k, t.accumulate});
    }
    if (ctx.needs(b)) {
      const auto t = ctx.tape->target(b);
      if (transpose_b)  // dB[n, k] = dY^T A
        kernels::gemm(ctx.pool, n, k, m, along_rows(dy, n), along_rows(a, k),
                      {t.buffer.f32(), k, t.accumulate});
      else  // dB[k, n] = A^T dY
        kernels::gemm(ctx.pool, k, n, m, along_rows(a, k), along_rows(dy, n),
                      {t.buffer.f32(), n, t.accumulate});
    }
  });
  return y;
}

}  // namespace makar::ops
