// Pieces of the matrix product that its drivers share (gemm.cpp, gemm_few.cpp).
#pragma once
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/tasks.h"

namespace makar::kernels {

inline const std::byte* operand_at(const Operand& x, int64_t row, int64_t k) {
  return static_cast<const std::byte*>(x.data) +
         static_cast<size_t>(row * x.row_stride + k * x.k_stride) * size_of(x.type);
}
inline const float* floats_at(const Operand& x, int64_t row, int64_t k) {
  return reinterpret_cast<const float*>(operand_at(x, row, k));
}
inline void check_product_type(DType type) {
  check(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
        "a matrix product reads f32, f16 or bf16");
}
inline const PackedMatrix& matrix_of(const PackedProduct& p) {
  return static_cast<const PackedMatrix&>(*p.b);
}

// Panels of B, packed or to be packed.
struct GemmColumns {
  const Table& t;
  const Operand* unpacked = nullptr;  // [n, k]
  const PackedMatrix* packed = nullptr;
  int64_t n = 0;
  bool widen_in_tile = false;  // few rows: 16-bit packed panels are not widened beforehand

  bool in_place() const { return packed && (widen_in_tile || packed->type() == DType::kF32); }
  // Type of the panels that get() returns.
  DType type() const { return in_place() ? packed->type() : DType::kF32; }

  // Panels [first, first + count) restricted to k in [p, p + kc): in place, or written to `scratch`. `step`
  // receives the bytes between panels.
  const std::byte* get(int64_t first, int64_t count, int64_t p, int64_t kc, float* scratch,
                       int64_t* step) const;
};

// Packed rows of A: panels [k][mr] with `per_panel` rows. Few rows are distributed evenly over the panels.
struct GemmRows {
  int64_t m = 0, per_panel = 0, panels = 0;
  GemmRows(const Table& t, int64_t rows) : m(rows), panels(ceil_div(rows, t.mr)) {
    per_panel = rows <= 4 * t.mr ? ceil_div(rows, panels) : t.mr;
    panels = ceil_div(rows, per_panel);
  }
  int count(int64_t panel) const { return static_cast<int>(std::min(per_panel, m - panel * per_panel)); }
};

// Splits k evenly into pieces of at most t.kc.
inline int64_t gemm_k_step(const Table& t, int64_t k) { return k == 0 ? 1 : ceil_div(k, ceil_div(k, t.kc)); }

// Packed A has the layout [k pieces][panels][k in the piece][mr]: the panels of a task are contiguous.
void pack_gemm_rows(const Table& t, const Operand& a, const GemmRows& rows, int64_t k, int64_t begin,
                    int64_t end, float* out);
// All panels: a small A by the caller, a larger one by all threads.
void pack_gemm_rows(ThreadPool& pool, const Table& t, const Operand& a, const GemmRows& rows, int64_t k,
                    float* out);

// Multiplies A panels [i0, i1) by one B panel, for one k piece.
void multiply_gemm_panel(const Table& t, DType type, const GemmRows& rows, int64_t k, const float* a,
                         const void* panel, int64_t i0, int64_t i1, float* c, int64_t ldc, int cols,
                         bool accumulate);

// One task: row panels [i0, i1) by column panels [j0, j1), with k in pieces so that a B panel stays in the L1
// cache. Few rows finish all of k before the next columns (B is one stream, A stays in the L2 cache); many
// rows process all columns of a k piece first.
void multiply_gemm_task(const GemmRows& rows, const float* a, const GemmColumns& b, int64_t k, int64_t i0,
                        int64_t i1, int64_t j0, int64_t j1, const GemmOutput& out, float* scratch,
                        int64_t scratch_panels);

// Several products of few rows with one A, whose packed panels are read once and in place; up to
// max_few_rows() rows.
void gemm_few_rows(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products);
int64_t max_few_rows(const Table& t);

}  // namespace makar::kernels
