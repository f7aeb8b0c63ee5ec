#include "kernels/gemm.h"

#include <algorithm>
#include <vector>

namespace makar::kernels {
namespace {

float read(const Operand& x, int64_t r, int64_t k) {
  const int64_t i = r * x.row_stride + k * x.k_stride;
  switch (x.type) {
    case DType::kF32: return static_cast<const float*>(x.data)[i];
    case DType::kF16: return from_f16(static_cast<const uint16_t*>(x.data)[i]);
    case DType::kBF16: return from_bf16(static_cast<const uint16_t*>(x.data)[i]);
    default: check(false, "a matrix product reads f32, f16 or bf16");
  }
  return 0;
}

void pack_panel(const Operand& x, int64_t r0, int64_t rows, int64_t k, int width, float* out) {
  for (int64_t p = 0; p < k; ++p)
    for (int i = 0; i < width; ++i) out[p * width + i] = r0 + i < rows ? read(x, r0 + i, p) : 0.0f;
}

}  // namespace

PackedMatrix PackedMatrix::pack(ThreadPool& pool, const Operand& b, int64_t n, int64_t k) {
  const Table& t = cpu();
  PackedMatrix packed;
  const int64_t panels = (n + t.nr - 1) / t.nr;
  packed.data_ = Tensor::empty({panels, k, t.nr});
  packed.n_ = n, packed.k_ = k;
  pool.run(panels, [&](int64_t i) { pack_panel(b, i * t.nr, n, k, t.nr, packed.data_.f32() + i * k * t.nr); });
  return packed;
}

const void* PackedMatrix::panel(int64_t index) const { return data_.f32() + index * k_ * data_.dim(2); }

void gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, const GemmOutput& out) {
  gemm(pool, m, a, PackedMatrix::pack(pool, b, n, k), out);
}

void gemm(ThreadPool& pool, int64_t m, const Operand& a, const PackedMatrix& b, const GemmOutput& out) {
  const Table& t = cpu();
  const int64_t n = b.n(), k = b.k(), blocks = (m + t.mr - 1) / t.mr;
  pool.run(blocks, [&](int64_t block) {
    std::vector<float> panel(static_cast<size_t>(k * t.mr));
    const int64_t i0 = block * t.mr;
    const int rows = static_cast<int>(std::min<int64_t>(t.mr, m - i0));
    pack_panel(a, i0, m, k, t.mr, panel.data());
    for (int64_t j0 = 0; j0 < n; j0 += t.nr) {
      const int cols = static_cast<int>(std::min<int64_t>(t.nr, n - j0));
      t.tile(k, panel.data(), static_cast<const float*>(b.panel(j0 / t.nr)), out.c + i0 * out.ldc + j0, out.ldc, rows,
             cols, out.accumulate);
    }
    if (out.bias)
      for (int i = 0; i < rows; ++i)
        for (int64_t j = 0; j < n; ++j) out.c[(i0 + i) * out.ldc + j] += out.bias[j];
  });
}

}  // namespace makar::kernels
