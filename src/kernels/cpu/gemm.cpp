// The driver of the matrix product. Three paths:
// - few rows by packed B (at most kMaxFewPanels panels of A): all products with one A read their panels of
//   B once, in place, in one parallel region; up to rows_max rows, A is not packed;
// - one block of rows (m <= kRowBlock), or packed B: A is packed, and each task packs or widens the B panels
//   that it needs;
// - many rows by unpacked B: all threads pack A and a block of B, then run tasks of several tiles.
// Idle threads take the next task. All paths add k in sequence, so the division into tasks does not change
// the bits.
#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/cores.h"
#include "kernels/cpu/tasks.h"

namespace makar::kernels {
namespace {

constexpr int64_t kRowBlock = 256;                      // rows of packed A per task: half of a 1 MiB cache
constexpr int64_t kMaxPackedFloats = int64_t{2} << 20;  // of A, and of B: 8 MiB each
constexpr int64_t kMaxK = 8192;                         // longer products are split and accumulated
constexpr int64_t kMaxSerialPack = 16384;   // up to this many elements of A, the caller packs alone
constexpr int64_t kMaxL2Elements = 200000;  // elements of A that stay in the L2 cache
constexpr int64_t kMaxTaskColumnPanels = 64;
constexpr int64_t kPackRowPanels = 8, kPackColumnPanels = 4;  // panels that one task packs
constexpr int64_t kShortK = 256;  // up to this k, rows are the outer loop in packed_blocks()
// Panels of A up to which packed B is read once, in place: 16-bit weights are widened in the tiles. On ARM
// widening takes more time than the product of so few rows.
#if defined(__aarch64__)
constexpr int64_t kMaxFewPanels = 1;
#else
constexpr int64_t kMaxFewPanels = 2;
#endif

const std::byte* at(const Operand& x, int64_t row, int64_t k) {
  return static_cast<const std::byte*>(x.data) +
         static_cast<size_t>(row * x.row_stride + k * x.k_stride) * size_of(x.type);
}
const float* f32_at(const Operand& x, int64_t row, int64_t k) {
  return reinterpret_cast<const float*>(at(x, row, k));
}

void check_type(DType type) {
  check(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
        "a matrix product reads f32, f16 or bf16");
}

// Panels of B, packed or to be packed.
struct Columns {
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
        t.pack_b(f32_at(*unpacked, row, p), unpacked->row_stride, unpacked->k_stride, rows, kc, scratch);
      else
        t.pack_b_widen(unpacked->type, reinterpret_cast<const uint16_t*>(at(*unpacked, row, p)),
                       unpacked->row_stride, unpacked->k_stride, rows, kc, scratch);
    }
    *step = kc * t.nr * static_cast<int64_t>(sizeof(float));
    return reinterpret_cast<const std::byte*>(scratch);
  }
};

// Packed rows of A: panels [k][mr] with `per_panel` rows. Few rows are distributed evenly over the panels.
struct Rows {
  int64_t m = 0, per_panel = 0, panels = 0;
  Rows(const Table& t, int64_t rows) : m(rows), panels(ceil_div(rows, t.mr)) {
    per_panel = rows <= 4 * t.mr ? ceil_div(rows, panels) : t.mr;
    panels = ceil_div(rows, per_panel);
  }
  int count(int64_t panel) const { return static_cast<int>(std::min(per_panel, m - panel * per_panel)); }
};

// Splits k evenly into pieces of at most t.kc.
int64_t k_step(const Table& t, int64_t k) { return k == 0 ? 1 : ceil_div(k, ceil_div(k, t.kc)); }

// Packed A has the layout [k pieces][panels][k in the piece][mr]: the panels of a task are contiguous.
void pack_rows(const Table& t, const Operand& a, const Rows& rows, int64_t k, int64_t begin, int64_t end,
               float* out) {
  const int64_t kc = k_step(t, k);
  for (int64_t p = 0; p < k; p += kc) {
    const int64_t k_count = std::min(kc, k - p);
    float* to = out + p * rows.panels * t.mr;
    if (rows.per_panel == t.mr) {
      const int64_t count = std::min(rows.m - begin * t.mr, (end - begin) * t.mr);
      t.pack_a(f32_at(a, begin * t.mr, p), a.row_stride, a.k_stride, count, k_count,
               to + begin * k_count * t.mr);
    } else {
      for (int64_t i = begin; i < end; ++i)
        t.pack_a(f32_at(a, i * rows.per_panel, p), a.row_stride, a.k_stride, rows.count(i), k_count,
                 to + i * k_count * t.mr);
    }
  }
}

// Multiplies A panels [i0, i1) by one B panel, for one k piece.
void multiply_panel(const Table& t, DType type, const Rows& rows, int64_t k, const float* a,
                    const void* panel, int64_t i0, int64_t i1, float* c, int64_t ldc, int cols,
                    bool accumulate) {
  for (int64_t i = i0; i < i1; ++i) {
    float* to = c + i * rows.per_panel * ldc;
    if (i + 1 < i1)  // prefetch the next tile of C
      for (int r = 0; r < rows.count(i + 1); ++r) __builtin_prefetch(to + (rows.per_panel + r) * ldc, 1);
    t.tile(type, k, a + i * k * t.mr, panel, to, ldc, rows.count(i), cols, accumulate);
  }
}

// One task: row panels [i0, i1) by column panels [j0, j1), with k in pieces so that a B panel stays in the L1
// cache. Few rows finish all of k before the next columns (B is one stream, A stays in the L2 cache); many
// rows process all columns of a k piece first.
void multiply_task(const Rows& rows, const float* a, const Columns& b, int64_t k, int64_t i0, int64_t i1,
                   int64_t j0, int64_t j1, const GemmOutput& out, float* scratch, int64_t scratch_panels) {
  const Table& t = b.t;
  const bool few = (b.widen_in_tile || (i1 - i0) * t.mr * k <= kMaxL2Elements) && scratch_panels == 1;
  const int64_t kc = k_step(t, k), pass = few ? 1 : j1 - j0;  // column panels that finish all of k together
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
          multiply_panel(t, b.type(), rows, k_count, a + p * rows.panels * t.mr, panel, i0, i1, out.c + col,
                         out.ldc, cols, out.accumulate || p > 0);
        }
      }
    }
  if (out.bias)
    add_bias(out, i0 * rows.per_panel, std::min(i1 * rows.per_panel, rows.m), j0 * t.nr,
             std::min(j1 * t.nr, b.n));
}

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

// True if no f16 has all exponent bits set. Padding is zero.
bool all_finite(const uint16_t* x, int64_t count) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= (x[i] & 0x7c00u) == 0x7c00u;
  return !found;
}

// True if all |x| are below the limit.
bool below(const float* x, int64_t count, float limit) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= !(std::fabs(x[i]) < limit);
  return !found;
}

const PackedMatrix& matrix_of(const PackedProduct& p) { return static_cast<const PackedMatrix&>(*p.b); }

// The rows of a small A: unpacked with k contiguous, or packed.
class FewRows {
 public:
  FewRows(ThreadPool& pool, const Table& t, int64_t m, int64_t k, const Operand& a)
      : rows_(t, m),
        packed_(m > t.rows_max),
        copy_(Scratch::of_floats(packed_           ? rows_.panels * t.mr * k
                                 : a.k_stride == 1 ? 0
                                                   : m * k)),
        data_(copy_.get() ? copy_.floats() : f32_at(a, 0, 0)),
        lda_(a.k_stride == 1 ? a.row_stride : k) {
    if (packed_) {
      const auto pack = [&](int64_t begin, int64_t end) {
        pack_rows(t, a, rows_, k, begin, end, copy_.floats());
      };
      if (m * k <= kMaxSerialPack)
        pack(0, rows_.panels);
      else
        pool.for_ranges(rows_.panels, 1, pack);
    } else if (a.k_stride != 1) {
      for (int64_t p = 0; p < k; ++p)
        for (int64_t i = 0; i < m; ++i) copy_.floats()[i * k + p] = *f32_at(a, i, p);
    }
    small_ = m == 1 && t.row_f16 && below(data_, k, 0x1p15f);
  }
  // Panels [first, last) of a product.
  void multiply(const PackedProduct& product, int64_t first, int64_t last) const {
    const PackedMatrix& b = matrix_of(product);
    const GemmOutput& out = product.out;
    const Table& t = b.table();
    const int64_t k = b.k(), col = first * t.nr, end = std::min(b.n(), last * t.nr);
    if (packed_)
      return multiply_task(rows_, data_, {t, nullptr, &b, b.n(), true}, k, 0, rows_.panels, first, last, out,
                           nullptr, 1);
    if (small_ && b.finite_f16())
      t.row_f16(end - col, k, data_, b.panel(first), k * t.nr, out.c + col, out.accumulate);
    else
      t.rows(b.type(), static_cast<int>(rows_.m), end - col, k, data_, lda_, b.panel(first), k * t.nr,
             out.c + col, out.ldc, out.accumulate);
    add_bias(out, 0, rows_.m, col, end);
  }

 private:
  Rows rows_;
  bool packed_, small_ = false;  // small: one row for row_f16()
  Scratch copy_;
  const float* data_;
  int64_t lda_;
};

// The panels of all products are read once; each thread reads its share of every matrix.
void few_rows(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products) {
  const PackedMatrix& b = matrix_of(products[0]);
  const Table& t = b.table();
  const auto panels = [&](size_t i) { return ceil_div(matrix_of(products[i]).n(), t.nr); };
  int64_t all = 0, bytes = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    check(matrix_of(products[i]).k() == b.k(), "products with one A have one k");
    all += panels(i), bytes += static_cast<int64_t>(matrix_of(products[i]).bytes());
  }
  if (all == 0) return;
  const FewRows rows(pool, t, m, b.k(), a);
  const int64_t threads = std::min<int64_t>(all, pool.threads()), share = ceil_div(all, threads);
  // Pieces of one or two panels: all threads finish together.
  const int64_t most = std::min(share, std::max<int64_t>(kTasksPerThread, share / 2));
  const int64_t pieces = std::clamp<int64_t>(stream_tasks(pool, bytes) / threads, 1, most);
  pool.run(threads * pieces, [&](int64_t task) {
    each_share(products.size(), panels, task / pieces, threads, task % pieces, pieces,
               [&](size_t i, int64_t first, int64_t last) { rows.multiply(products[i], first, last); });
  });
}

// All rows fit one packed block of A. Each task packs or widens the B panels that it needs.
void row_block(ThreadPool& pool, int64_t m, int64_t k, const Operand& a, const Columns& b,
               const GemmOutput& out) {
  const Table& t = b.t;
  const Rows rows(t, m);
  const int64_t panels = ceil_div(b.n, t.nr);
  const Scratch packed_a = Scratch::of_floats(rows.panels * t.mr * k);
  const auto pack = [&](int64_t begin, int64_t end) {
    pack_rows(t, a, rows, k, begin, end, packed_a.floats());
  };
  if (m * k <= kMaxSerialPack)
    pack(0, rows.panels);
  else
    pool.for_ranges(rows.panels, 1, pack);

  const Grid grid(pool, t, rows.panels, panels);
  const bool in_place = b.in_place();
  const int64_t scratch_panels = in_place ? 1 : b.unpacked && b.unpacked->k_stride != 1 ? 4 : 1;
  pool.run(grid.row_tasks * grid.col_tasks, [&](int64_t task) {
    const int64_t i = task / grid.col_tasks * grid.row_step, j = task % grid.col_tasks * grid.col_step;
    const Scratch scratch =
        Scratch::of_floats(in_place ? 0 : scratch_panels * t.nr * std::min<int64_t>(k, t.kc));
    multiply_task(rows, packed_a.floats(), b, k, i, std::min(rows.panels, i + grid.row_step), j,
                  std::min(panels, j + grid.col_step), out, scratch.floats(), scratch_panels);
  });
}

// Unpacked B, many rows: blocks of B [columns, k] are packed once by all threads and used by every row.
void packed_blocks(ThreadPool& pool, int64_t m, int64_t k, const Operand& a, const Columns& b,
                   const GemmOutput& out) {
  const Table& t = b.t;
  const Rows rows(t, m);
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
        pack_rows(t, a, rows, k, task * kPackRowPanels, std::min(rows.panels, (task + 1) * kPackRowPanels),
                  packed_a.floats());
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
    const int64_t kc = k_step(t, k);
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
                     out.accumulate || p > 0);
          continue;
        }
        for (int64_t j = j0; j < j1; ++j)
          multiply_panel(t, DType::kF32, rows, k_count, packed_a.floats() + p * rows.panels * t.mr,
                         packed_b.floats() + (j * k + p) * t.nr, i0, i1, part.c + j * t.nr, out.ldc,
                         static_cast<int>(std::min<int64_t>(t.nr, cols - j * t.nr)), out.accumulate || p > 0);
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
    part_a.data = at(a, i, 0);
    GemmOutput part = out;
    part.c += i * out.ldc;
    row_block(pool, std::min(per_block, m - i), b.k(), part_a, {t, nullptr, &b, b.n(), false}, part);
  }
}

}  // namespace

size_t PackedMatrix::bytes_for(DType type, int64_t n, int64_t k, const Table& table) {
  if (is_block(type)) return QuantMatrix::bytes_for(type, n, k);
  return static_cast<size_t>(ceil_div(n, table.nr) * table.nr * k) * size_of(type);
}

PackedMatrix PackedMatrix::pack(ThreadPool& pool, const Operand& b, int64_t n, int64_t k, const Table& table,
                                Memory& memory) {
  PackedMatrix packed;
  if (is_block(b.type)) {
    check(b.k_stride == 1 && b.row_stride == k, "a matrix of a block type must be contiguous");
    packed.quant_ = QuantMatrix::pack(pool, b.type, b.data, n, k, table, memory);
    packed.table_ = &table, packed.n_ = n, packed.k_ = k;
    return packed;
  }
  check_type(b.type);
  const int64_t panels = ceil_div(n, table.nr);
  packed.table_ = &table;
  packed.data_ = Tensor::empty({panels, k, table.nr}, b.type, memory);
  std::byte* panels_at = packed.data_.address();
  if (memory.is_host()) place_parts(panels_at, packed.data_.bytes(), pool.threads());
  packed.n_ = n, packed.k_ = k;
  const int64_t tasks = ceil_div(panels, kPackColumnPanels);
  std::atomic<bool> finite = b.type == DType::kF16;
  pool.run(tasks, [&](int64_t task) {
    const int64_t row = task * kPackColumnPanels * table.nr,
                  rows = std::min<int64_t>(n - row, kPackColumnPanels * table.nr);
    if (b.type == DType::kF32)
      table.pack_b(f32_at(b, row, 0), b.row_stride, b.k_stride, rows, k,
                   reinterpret_cast<float*>(panels_at) + row * k);
    else
      table.pack_b16(reinterpret_cast<const uint16_t*>(at(b, row, 0)), b.row_stride, b.k_stride, rows, k,
                     reinterpret_cast<uint16_t*>(panels_at) + row * k);
    if (b.type == DType::kF16 && !all_finite(reinterpret_cast<uint16_t*>(panels_at) + row * k, rows * k))
      finite.store(false, std::memory_order_relaxed);
  });
  packed.finite_f16_ = finite.load();
  return packed;
}

const void* PackedMatrix::panel(int64_t index) const {
  return data_.address() + static_cast<size_t>(index * k_ * table_->nr) * size_of(data_.dtype());
}

void gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b,
          const GemmOutput& out, const Table& table) {
  check(a.type == DType::kF32, "the left side of a matrix product is f32");
  check_type(b.type);
  const Columns columns{table, &b, nullptr, n};
  if (m <= 0 || n <= 0) return;
  if (m <= kRowBlock) return row_block(pool, m, k, a, columns, out);
  // Blocks of rows and of k keep the packed copies small; k blocks accumulate in order.
  for (int64_t p = 0; p == 0 || p < k; p += kMaxK) {
    const int64_t k_count = std::min(kMaxK, k - p);
    const int64_t max = std::max<int64_t>(
        kRowBlock * 2, kMaxPackedFloats / std::max<int64_t>(k_count, 1) / table.mr * table.mr);
    const int64_t blocks = ceil_div(m, max), per_block = ceil_div(ceil_div(m, blocks), table.mr) * table.mr;
    Operand a_part = a, b_part = b;
    b_part.data = at(b, 0, p);
    for (int64_t i = 0; i < m; i += per_block) {
      a_part.data = at(a, i, p);
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
  if (m <= kMaxFewPanels * t.mr && std::none_of(products.begin(), products.end(), quantized))
    return few_rows(pool, m, a, products);
  for (const PackedProduct& p : products) {
    const PackedMatrix& b = matrix_of(p);
    if (quantized(p) || m <= kMaxFewPanels * t.mr)
      gemm(pool, m, a, {&p, 1});
    else
      many_rows(pool, m, a, b, p.out);
  }
}

}  // namespace makar::kernels
