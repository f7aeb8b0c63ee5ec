#include "kernels/cpu/gemm_tasks.h"

#include <algorithm>

namespace makar::kernels {
namespace {

constexpr int64_t kMaxL2Elements = 200000;  // elements of A that stay in the L2 cache

}  // namespace

const std::byte* GemmColumns::get(int64_t first, int64_t count, int64_t p, int64_t kc, float* scratch,
                                  int64_t* step) const {
  if (in_place()) {
    const auto row = t.nr * static_cast<int64_t>(size_of(packed->type()));
    *step = packed->k() * row;
    return static_cast<const std::byte*>(packed->panel(first)) + p * row;
  }
  if (packed) {
    for (int64_t j = 0; j < count; ++j)
      t.widen(packed->type(), static_cast<const uint16_t*>(packed->panel(first + j)) + p * t.nr, kc * t.nr,
              scratch + j * kc * t.nr);
  } else {
    const int64_t row = first * t.nr, rows = std::min(n - row, count * t.nr);
    if (unpacked->type == DType::kF32)
      t.pack_b(floats_at(*unpacked, row, p), unpacked->row_stride, unpacked->k_stride, rows, kc, scratch);
    else
      t.pack_b_widen(unpacked->type, reinterpret_cast<const uint16_t*>(operand_at(*unpacked, row, p)),
                     unpacked->row_stride, unpacked->k_stride, rows, kc, scratch);
  }
  *step = kc * t.nr * static_cast<int64_t>(sizeof(float));
  return reinterpret_cast<const std::byte*>(scratch);
}

namespace {

// Rows of panels [begin, end) at k in [p, p + count).
void pack_piece(const Table& t, const Operand& a, const GemmRows& rows, int64_t p, int64_t count,
                int64_t begin, int64_t end, float* out) {
  float* to = out + p * rows.panels * t.mr;
  if (rows.per_panel == t.mr) {
    const int64_t m = std::min(rows.m - begin * t.mr, (end - begin) * t.mr);
    t.pack_a(floats_at(a, begin * t.mr, p), a.row_stride, a.k_stride, m, count, to + begin * count * t.mr);
  } else {
    for (int64_t i = begin; i < end; ++i)
      t.pack_a(floats_at(a, i * rows.per_panel, p), a.row_stride, a.k_stride, rows.count(i), count,
               to + i * count * t.mr);
  }
}

}  // namespace

void pack_gemm_rows(const Table& t, const Operand& a, const GemmRows& rows, int64_t k, int64_t begin,
                    int64_t end, float* out) {
  const int64_t kc = gemm_k_step(t, k);
  for (int64_t p = 0; p < k; p += kc) pack_piece(t, a, rows, p, std::min(kc, k - p), begin, end, out);
}

void pack_gemm_rows(ThreadPool& pool, const Table& t, const Operand& a, const GemmRows& rows, int64_t k,
                    float* out) {
  constexpr int64_t kMaxSerial = 16384;  // up to this many elements of A, the caller packs alone
  if (rows.m * k <= kMaxSerial) return pack_gemm_rows(t, a, rows, k, 0, rows.panels, out);
  if (rows.panels >= pool.threads())
    return pool.for_ranges(
        rows.panels, 1, [&](int64_t begin, int64_t end) { pack_gemm_rows(t, a, rows, k, begin, end, out); });
  const int64_t kc = gemm_k_step(t, k), pieces = ceil_div(k, kc);
  pool.for_ranges(rows.panels * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / pieces, p = at % pieces * kc;
      pack_piece(t, a, rows, p, std::min(kc, k - p), i, i + 1, out);
    }
  });
}

void multiply_gemm_panel(const Table& t, DType type, const GemmRows& rows, int64_t k, const float* a,
                         const void* panel, int64_t i0, int64_t i1, float* c, int64_t ldc, int cols,
                         bool accumulate) {
  for (int64_t i = i0; i < i1; ++i) {
    float* to = c + i * rows.per_panel * ldc;
    if (i + 1 < i1)  // prefetch the next tile of C
      for (int r = 0; r < rows.count(i + 1); ++r) __builtin_prefetch(to + (rows.per_panel + r) * ldc, 1);
    t.tile(type, k, a + i * k * t.mr, panel, to, ldc, rows.count(i), cols, accumulate, {i - i0, i1 - i0});
  }
}

void multiply_gemm_task(const GemmRows& rows, const float* a, const GemmColumns& b, int64_t k, int64_t i0,
                        int64_t i1, int64_t j0, int64_t j1, const GemmOutput& out, float* scratch,
                        int64_t scratch_panels) {
  const Table& t = b.t;
  const bool few = (b.widen_in_tile || (i1 - i0) * t.mr * k <= kMaxL2Elements) && scratch_panels == 1;
  const int64_t kc = gemm_k_step(t, k),
                pass = few ? 1 : j1 - j0;  // column panels that finish all of k together
  for (int64_t jj = j0; jj < j1; jj += pass)
    for (int64_t p = 0; p == 0 || p < k; p += kc) {
      const int64_t k_count = std::min(kc, k - p), j_end = std::min(j1, jj + pass);
      for (int64_t j = jj; j < j_end; j += scratch_panels) {
        const int64_t group = std::min(scratch_panels, j_end - j);
        int64_t step = 0;
        const std::byte* panel = b.get(j, group, p, k_count, scratch, &step);
        for (int64_t g = 0; g < group; ++g, panel += step) {
          const int64_t col = (j + g) * t.nr;
          const int cols = static_cast<int>(std::min<int64_t>(t.nr, b.n - col));
          multiply_gemm_panel(t, b.type(), rows, k_count, a + p * rows.panels * t.mr, panel, i0, i1,
                              out.c + col, out.ldc, cols, out.accumulate || p > 0);
        }
      }
    }
  if (out.bias)
    add_bias(out, i0 * rows.per_panel, std::min(i1 * rows.per_panel, rows.m), j0 * t.nr,
             std::min(j1 * t.nr, b.n));
}

}  // namespace makar::kernels
