// The driver of the matrix product. Three paths:
// - few rows by packed B: gemm_few.cpp;
// - one block of rows (m <= kRowBlock), or packed B: A is packed, and each task packs or widens the B panels
//   that it needs;
// - many rows by unpacked B: all threads pack A and a block of B, then run tasks of several tiles.
// Idle threads take the next task. All paths add k in sequence, so the division into tasks does not change
// the bits.
#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/gemm_tasks.h"

namespace makar::kernels {
namespace {

constexpr int64_t kRowBlock = 256;                      // rows of packed A per task: half of a 1 MiB cache
constexpr int64_t kMaxPackedFloats = int64_t{2} << 20;  // of A, and of B: 8 MiB each
constexpr int64_t kMaxK = 8192;                         // longer products are split and accumulated
constexpr int64_t kMaxTaskColumnPanels = 64;
constexpr int64_t kPackRowPanels = 8, kPackColumnPanels = 4;  // panels that one task packs
constexpr int64_t kShortK = 256;  // up to this k, rows are the outer loop in packed_blocks()

// Division of a grid of row and column panels into tasks: minimises the load of the busiest thread. Ties go
// to the finer division, which is less sensitive to a delayed thread.
struct Grid {
  int64_t row_step = 1, col_step = 1, row_tasks = 1, col_tasks = 1;
  Grid(ThreadPool& pool, const Table& t, int64_t row_panels, int64_t col_panels) {
    const int64_t threads = pool.threads(), max = threads == 1 ? 1 : threads * kTasksPerThread;
    const int64_t min_rows = ceil_div(row_panels * t.mr, kRowBlock),
                  min_cols = ceil_div(col_panels, kMaxTaskColumnPanels);
    int64_t best = std::numeric_limits<int64_t>::max();
    for (int64_t r = min_rows; r <= std::min(row_panels, std::max(min_rows, 2 * threads)); ++r)
      for (int64_t c = min_cols; c <= std::min(col_panels, std::max(min_cols, ceil_div(max, r))); ++c) {
        const int64_t rows = ceil_div(row_panels, r), cols = ceil_div(col_panels, c);
        const int64_t tasks = ceil_div(row_panels, rows) * ceil_div(col_panels, cols);
        // Each additional split of the rows reads the columns again, which costs about one row panel.
        const int64_t time = ceil_div(tasks, threads) * (rows + 1) * cols;
        if (time > best || (time == best && tasks <= row_tasks * col_tasks)) continue;
        best = time, row_step = rows, col_step = cols;
        row_tasks = ceil_div(row_panels, rows), col_tasks = ceil_div(col_panels, cols);
      }
  }
};

// All rows fit one packed block of A. Each task packs or widens the B panels that it needs.
void row_block(ThreadPool& pool, int64_t m, int64_t k, const Operand& a, const GemmColumns& b,
               const GemmOutput& out) {
  const Table& t = b.t;
  const GemmRows rows(t, m);
  const int64_t panels = ceil_div(b.n, t.nr);
  const Scratch packed_a = Scratch::of_floats(rows.panels * t.mr * k);
  pack_gemm_rows(pool, t, a, rows, k, packed_a.floats());

  const Grid grid(pool, t, rows.panels, panels);
  const bool in_place = b.in_place();
  const int64_t scratch_panels = in_place ? 1 : b.unpacked && b.unpacked->k_stride != 1 ? 4 : 1;
  pool.run(grid.row_tasks * grid.col_tasks, [&](int64_t task) {
    const int64_t i = task / grid.col_tasks * grid.row_step, j = task % grid.col_tasks * grid.col_step;
    const Scratch scratch =
        Scratch::of_floats(in_place ? 0 : scratch_panels * t.nr * std::min<int64_t>(k, t.kc));
    multiply_gemm_task(rows, packed_a.floats(), b, k, i, std::min(rows.panels, i + grid.row_step), j,
                       std::min(panels, j + grid.col_step), out, scratch.floats(), scratch_panels);
  });
}

// Unpacked B, many rows: blocks of B [columns, k] are packed once by all threads and used by every row.
void packed_blocks(ThreadPool& pool, int64_t m, int64_t k, const Operand& a, const GemmColumns& b,
                   const GemmOutput& out) {
  const Table& t = b.t;
  const GemmRows rows(t, m);
  const Scratch packed_a = Scratch::of_floats(rows.panels * t.mr * k);
  const int64_t panels = ceil_div(b.n, t.nr);
  const int64_t max = std::clamp<int64_t>(kMaxPackedFloats / std::max<int64_t>(k, 1) / t.nr, 16, panels);
  const Scratch packed_b = Scratch::of_floats(std::min(max, panels) * t.nr * k);
  const int64_t blocks = ceil_div(panels, max), per_block = ceil_div(panels, blocks);
  for (int64_t first = 0; first < panels; first += per_block) {
    const int64_t count = std::min(per_block, panels - first);
    const int64_t a_tasks = first == 0 ? ceil_div(rows.panels, kPackRowPanels) : 0,
                  b_tasks = ceil_div(count, kPackColumnPanels);
    pool.run(a_tasks + b_tasks, [&](int64_t task) {
      if (task < a_tasks) {
        pack_gemm_rows(t, a, rows, k, task * kPackRowPanels,
                       std::min(rows.panels, (task + 1) * kPackRowPanels), packed_a.floats());
      } else {
        const int64_t j = (task - a_tasks) * kPackColumnPanels;
        int64_t step = 0;
        b.get(first + j, std::min(kPackColumnPanels, count - j), 0, k, packed_b.floats() + j * t.nr * k,
              &step);
      }
    });
    const Grid grid(pool, t, rows.panels, count);
    const int64_t cols = std::min(b.n - first * t.nr, count * t.nr);
    GemmOutput part = out;
    part.c += first * t.nr;
    if (part.bias) part.bias += first * t.nr;
    const int64_t kc = gemm_k_step(t, k);
    pool.run(grid.row_tasks * grid.col_tasks, [&](int64_t task) {
      const int64_t i0 = task / grid.col_tasks * grid.row_step,
                    i1 = std::min(rows.panels, i0 + grid.row_step);
      const int64_t j0 = task % grid.col_tasks * grid.col_step, j1 = std::min(count, j0 + grid.col_step);
      for (int64_t p = 0; p == 0 || p < k; p += kc) {
        const int64_t k_count = std::min(kc, k - p);
        if (k_count <= kShortK) {
          for (int64_t i = i0; i < i1; ++i)
            for (int64_t j = j0; j < j1; ++j)
              t.tile(DType::kF32, k_count, packed_a.floats() + (p * rows.panels + i * k_count) * t.mr,
                     packed_b.floats() + (j * k + p) * t.nr, part.c + i * t.mr * out.ldc + j * t.nr, out.ldc,
                     rows.count(i), static_cast<int>(std::min<int64_t>(t.nr, cols - j * t.nr)),
                     out.accumulate || p > 0, {});
          continue;
        }
        for (int64_t j = j0; j < j1; ++j)
          multiply_gemm_panel(t, DType::kF32, rows, k_count, packed_a.floats() + p * rows.panels * t.mr,
                              packed_b.floats() + (j * k + p) * t.nr, i0, i1, part.c + j * t.nr, out.ldc,
                              static_cast<int>(std::min<int64_t>(t.nr, cols - j * t.nr)),
                              out.accumulate || p > 0);
      }
      if (part.bias) add_bias(part, i0 * t.mr, std::min(i1 * t.mr, m), j0 * t.nr, std::min(j1 * t.nr, cols));
    });
  }
}

// Packed B, many rows, a block of them at a time.
void many_rows(ThreadPool& pool, int64_t m, const Operand& a, const PackedMatrix& b, const GemmOutput& out) {
  if (b.n() <= 0) return;
  const Table& t = b.table();
  const int64_t max =
      std::max<int64_t>(kRowBlock, kMaxPackedFloats / std::max<int64_t>(b.k(), 1) / t.mr * t.mr);
  const int64_t blocks = ceil_div(m, max), per_block = ceil_div(ceil_div(m, blocks), t.mr) * t.mr;
  for (int64_t i = 0; i < m; i += per_block) {
    Operand part_a = a;
    part_a.data = operand_at(a, i, 0);
    GemmOutput part = out;
    part.c += i * out.ldc;
    row_block(pool, std::min(per_block, m - i), b.k(), part_a, {t, nullptr, &b, b.n(), false}, part);
  }
}

}  // namespace

void gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b,
          const GemmOutput& out, const Table& table) {
  check(a.type == DType::kF32, "the left side of a matrix product is f32");
  check_product_type(b.type);
  const GemmColumns columns{table, &b, nullptr, n};
  if (m <= 0 || n <= 0) return;
  if (m <= kRowBlock) return row_block(pool, m, k, a, columns, out);
  // Blocks of rows and of k keep the packed copies small; k blocks accumulate in order.
  for (int64_t p = 0; p == 0 || p < k; p += kMaxK) {
    const int64_t k_count = std::min(kMaxK, k - p);
    const int64_t max = std::max<int64_t>(
        kRowBlock * 2, kMaxPackedFloats / std::max<int64_t>(k_count, 1) / table.mr * table.mr);
    const int64_t blocks = ceil_div(m, max), per_block = ceil_div(ceil_div(m, blocks), table.mr) * table.mr;
    Operand a_part = a, b_part = b;
    b_part.data = operand_at(b, 0, p);
    for (int64_t i = 0; i < m; i += per_block) {
      a_part.data = operand_at(a, i, p);
      GemmOutput part = out;
      part.c += i * out.ldc;
      part.accumulate = out.accumulate || p > 0;
      if (p + k_count < k) part.bias = nullptr;
      packed_blocks(pool, std::min(per_block, m - i), k_count, a_part, {table, &b_part, nullptr, n}, part);
    }
  }
}

void gemm(ThreadPool& pool, int64_t m, const Operand& a, const PackedMatrix& b, const GemmOutput& out) {
  const PackedProduct product{&b, out};
  gemm(pool, m, a, {&product, 1});
}

void gemm(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products) {
  check(a.type == DType::kF32, "the left side of a matrix product is f32");
  if (m <= 0 || products.empty()) return;
  const auto quantized = [](const PackedProduct& p) { return matrix_of(p).quant().defined(); };
  if (std::all_of(products.begin(), products.end(), quantized)) return quant_gemm(pool, m, a, products);
  const Table& t = matrix_of(products[0]).table();
  if (m <= max_few_rows(t) && std::none_of(products.begin(), products.end(), quantized))
    return gemm_few_rows(pool, m, a, products);
  for (const PackedProduct& p : products) {
    const PackedMatrix& b = matrix_of(p);
    if (quantized(p) || m <= max_few_rows(t))
      gemm(pool, m, a, {&p, 1});
    else
      many_rows(pool, m, a, b, p.out);
  }
}

}  // namespace makar::kernels
