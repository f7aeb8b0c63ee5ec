// The driver of products on quantized weights. With few rows, panels are read in place, as one stream per
// thread; with many rows, each panel (or only its scales) is expanded once per block of rows. All paths give
// the same bits.
#include "kernels/cpu/quant.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/quant_form.h"
#include "kernels/cpu/tasks.h"

namespace makar::kernels {
namespace {

constexpr int64_t kMaxSerialValues = 8192;  // up to this many activations, the caller quantizes alone
constexpr int64_t kMinTaskValues = 2048;    // activations per task otherwise
constexpr int64_t kMaxL2Bytes = int64_t{640} << 10;  // bytes of activations that stay in the L2 cache
constexpr int64_t kMaxTaskRows = 256;
constexpr int64_t kMaxInPlaceRows = 32;  // rows up to which directly usable forms are not expanded
// Blocks and columns of weights per pass that fit the L1 cache together.
constexpr int64_t kMaxPassBlocks = 32, kPassColumns = 16;
constexpr int64_t kMinTileRows = 9;  // rows from which a tile of 16 rows is faster than one of 8

// Quantized rows in panels of `panel_rows` rows; few rows are distributed evenly.
struct Activations {
  const QuantForm& form;
  const Table& table;
  int64_t m;
  bool tile;  // panels for Table::quant_tile
  int64_t panels, panel_rows, blocks;
  Scratch data;

  Activations(ThreadPool& pool, int64_t rows, const Operand& a, const QuantMatrix& b)
      : form(kQuantForms[b.form()]),
        table(b.table()),
        m(rows),
        tile(m >= kMinTileRows && table.quant_tile && form.values != QuantValues::kInt16),
        panels(ceil_div(rows, tile ? kQuantTile : kQuantRows)),
        panel_rows(rows >= 8 && !tile ? kQuantRows
                                      : ceil_div(rows, panels)),  // panels of 4 allow 8 rows at a time
        blocks(b.blocks()),
        data((panels = ceil_div(rows, panel_rows)) * panel_bytes(static_cast<int>(panel_rows))) {
    if (panels * blocks == 0) return;
    // Blocks [begin, end) of all panels, numbered consecutively.
    const auto quantize = [&](int64_t begin, int64_t end) {
      for (int64_t at = begin, last; at < end; at = last) {
        const int64_t p = at / blocks, first = at % blocks;
        last = std::min(end, (p + 1) * blocks);
        const int64_t k = std::min(b.k(), first * kQuantBlock);  // the last blocks may be padding only
        const auto* x = static_cast<const float*>(a.data) + p * panel_rows * a.row_stride + k;
        table.quant_rows(b.form(), b.unit(), x, a.row_stride, count(p), b.k() - k, last - at,
                         panel(p) + first * block_bytes(count(p)));
      }
    };
    if (m * b.k() <= kMaxSerialValues)
      quantize(0, panels * blocks);
    else
      pool.for_ranges(panels * blocks, ceil_div(kMinTaskValues, panel_rows * kQuantBlock), quantize);
  }
  int count(int64_t p) const { return static_cast<int>(std::min(panel_rows, m - p * panel_rows)); }
  int64_t block_bytes(int rows) const { return activation_bytes(form, rows, table.quant_initial_sums); }
  int64_t panel_bytes(int rows) const { return blocks * block_bytes(rows); }
  std::byte* panel(int64_t p) const { return data.get() + p * panel_bytes(static_cast<int>(panel_rows)); }
};

// How a product reads the panels of B (in place or expanded), and how many rows of A at a time: a tile,
// eight, or up to four.
struct ProductPlan {
  const Table& table;
  bool in_place, eight;
  int form;  // form that the product reads

  ProductPlan(const Activations& a, const QuantMatrix& b)
      : table(b.table()),
        in_place(reads_in_place(a, b.form())),
        eight(takes_eight(a, in_place ? b.form() : expanded_form(a.form))),
        form(in_place ? b.form() : expanded_form(a.form)) {}
  bool reads_in_place(const Activations& a, int f) const {
    const bool few = a.m <= kMaxInPlaceRows, int8 = a.form.values == QuantValues::kInt8;
    if (a.tile) return int8;
    return f == kFormInt16 || (few && f == kFormInt8) || (takes_eight(a, f) && (few || int8));
  }
  bool takes_eight(const Activations& a, int f) const {
    return a.panel_rows == kQuantRows && a.m >= 8 && table.quant_takes_eight && table.quant_takes_eight(f);
  }
  // True if the scales of the panels are prepared before the product.
  bool prepares_scales() const { return in_place && eight && table.quant_scales; }
  // Scratch bytes per block of an expanded panel, or of its scales.
  int64_t scratch_bytes() const {
    const QuantForm& f = kQuantForms[form];
    if (in_place)
      return prepares_scales() ? expanded_scales(f, table.quant_cols) * int64_t{sizeof(float)} : 0;
    return group_bytes(f, table.quant_cols);
  }
  int64_t panels() const { return kPassColumns / table.quant_cols; }  // per pass
};

// Multiplies the only panel of rows by panels [j0, j1), which are read in place.
void multiply_in_place(const Activations& a, const QuantMatrix& b, int64_t j0, int64_t j1,
                       const GemmOutput& out) {
  const int64_t cols = a.table.quant_cols, col = j0 * cols, end = std::min(b.n(), j1 * cols);
  QuantProduct q;
  q.form = b.form(), q.rows = a.count(0), q.blocks = a.blocks;
  q.a = a.panel(0), q.b = b.panel(j0), q.b_panel = b.panel_bytes(), q.codebook = b.codebook();
  q.c = out.c + col, q.ldc = out.ldc, q.cols = end - col, q.accumulate = out.accumulate;
  a.table.quant_product(q);
  add_bias(out, 0, a.m, col, end);
}

// Multiplies row panels [p0, p1) by panels [j0, j1): a few panels and a piece of k at a time, expanded to
// `scratch` where the plan requires it.
void multiply_blocked(const Activations& a, const QuantMatrix& b, const ProductPlan& plan, int64_t p0,
                      int64_t p1, int64_t j0, int64_t j1, const GemmOutput& out, std::byte* scratch) {
  const QuantForm& f = a.form;
  const Table& t = plan.table;
  const int64_t cols = t.quant_cols, group = group_bytes(f, t.quant_cols), pass = plan.panels();
  // A multiple of 4 blocks: whole groups.
  const int64_t chunk = ceil_div(ceil_div(a.blocks, ceil_div(a.blocks, kMaxPassBlocks)), 4) * 4;
  for (int64_t j = j0; j < j1; j += pass)
    for (int64_t k = 0; k < a.blocks; k += chunk) {
      const int64_t blocks = std::min(chunk, a.blocks - k), count = std::min(pass, j1 - j);
      const int64_t from = k / blocks_of(f) * group, step = blocks * plan.scratch_bytes();
      for (int64_t i = 0; i < count; ++i) {
        if (plan.prepares_scales())
          t.quant_scales(plan.form, blocks, b.panel(j + i) + from,
                         reinterpret_cast<float*>(scratch + i * step));
        else if (!plan.in_place)
          t.quant_expand(b.form(), blocks, b.panel(j + i) + from, b.codebook(), scratch + i * step);
      }
      QuantProduct q;
      q.form = plan.form, q.blocks = blocks, q.codebook = b.codebook();
      q.b = plan.in_place ? b.panel(j) + from : scratch, q.b_panel = plan.in_place ? b.panel_bytes() : step;
      q.a_panel = a.panel_bytes(static_cast<int>(a.panel_rows));
      q.scale_panel = step / int64_t{sizeof(float)};
      q.ldc = out.ldc, q.cols = std::min(b.n() - j * cols, count * cols);
      q.accumulate = out.accumulate || k > 0;
      const std::byte* next = k + chunk < a.blocks        ? b.panel(j) + (k + chunk) / blocks_of(f) * group
                              : (j + pass) * cols < b.n() ? b.panel(j + pass)  // may belong to the next task
                                                          : nullptr;
      const int64_t prefetch = group / blocks_of(f) / (p1 - p0);  // prefetch bytes per panel of rows
      if (next) q.prefetch_panel = b.panel_bytes();
      if (a.tile) {
        q.rows = static_cast<int>(std::min(a.m, p1 * a.panel_rows) - p0 * a.panel_rows),
        q.panel_rows = static_cast<int>(a.panel_rows);
        q.a = a.panel(p0), q.first_block = k, q.c = out.c + p0 * a.panel_rows * out.ldc + j * cols;
        q.prefetch = next, q.prefetch_step = prefetch;
        t.quant_tile(q);
        continue;
      }
      for (int64_t p = p0, row_panels; p < p1; p += row_panels) {
        row_panels = plan.eight && p + 1 < p1 && a.count(p + 1) == kQuantRows ? 2 : 1;
        q.rows = row_panels == 2 ? 8 : a.count(p);
        q.scales =
            plan.prepares_scales() && row_panels == 2 ? reinterpret_cast<const float*>(scratch) : nullptr;
        if (next) q.prefetch_step = prefetch * row_panels, q.prefetch = next + (p - p0) * blocks * prefetch;
        q.a = a.panel(p) + k * a.block_bytes(a.count(p));
        q.c = out.c + p * a.panel_rows * out.ldc + j * cols;
        if (q.accumulate && p + row_panels < p1)  // prefetch the next rows of C
          for (int64_t i = 0; i < std::min(row_panels * a.panel_rows, a.m - (p + row_panels) * a.panel_rows);
               ++i)
            __builtin_prefetch(q.c + (row_panels * a.panel_rows + i) * out.ldc, 1);
        row_panels == 2 ? t.quant_eight(q) : t.quant_product(q);
      }
    }
  add_bias(out, p0 * a.panel_rows, std::min(a.m, p1 * a.panel_rows), j0 * cols, std::min(b.n(), j1 * cols));
}

// Matrices of one form, with consecutively numbered panels.
struct GroupedMatrix {
  const QuantMatrix* b;
  GemmOutput out;
  int64_t panels() const { return ceil_div(b->n(), b->table().quant_cols); }
};
using Matrices = std::vector<GroupedMatrix>;

// Visits panels [begin, end) over all matrices, numbered in units of `unit` panels.
template <class Body>
void each_matrix(const Matrices& matrices, int64_t unit, int64_t begin, int64_t end, const Body& body) {
  for (const GroupedMatrix& matrix : matrices) {
    const int64_t count = ceil_div(matrix.panels(), unit);
    if (begin < count && end > 0)
      body(matrix, std::max<int64_t>(begin, 0) * unit,
           std::min(matrix.panels(), std::min(end, count) * unit));
    begin -= count, end -= count;
  }
}

void few_rows(ThreadPool& pool, const Activations& a, const Matrices& matrices) {
  int64_t panels = 0, bytes = 0;
  for (const GroupedMatrix& matrix : matrices)
    panels += matrix.panels(), bytes += static_cast<int64_t>(matrix.b->bytes());
  const int64_t threads = std::min<int64_t>(panels, pool.threads());
  const int64_t pieces = std::max<int64_t>(1, std::min(panels, stream_tasks(pool, bytes)) / threads);
  pool.run(threads * pieces, [&](int64_t i) {
    each_share(
        matrices.size(), [&](size_t m) { return matrices[m].panels(); }, i / pieces, threads, i % pieces,
        pieces,
        [&](size_t m, int64_t j0, int64_t j1) {
          multiply_in_place(a, *matrices[m].b, j0, j1, matrices[m].out);
        });
  });
}

void many_rows(ThreadPool& pool, const Activations& a, const Matrices& matrices) {
  const ProductPlan plan(a, *matrices[0].b);
  const int64_t pass = plan.panels();
  int64_t groups = 0, bytes = 0;
  for (const GroupedMatrix& matrix : matrices)
    groups += ceil_div(matrix.panels(), pass), bytes += static_cast<int64_t>(matrix.b->bytes());
  // Few rows read the weights as fast as the memory: smaller tasks, so that no thread waits for another.
  const int64_t small_tasks = a.m <= kMaxInPlaceRows ? stream_tasks(pool, bytes) : 0;
  const int64_t row_bytes = std::max<int64_t>(a.blocks * activation_values(a.form), 1);
  const int64_t max = std::clamp<int64_t>(kMaxL2Bytes / row_bytes, 32, kMaxTaskRows);
  const int64_t row_tasks = ceil_div(a.m, max), rows = ceil_div(ceil_div(a.panels, row_tasks), 2) * 2;
  const int64_t target_tasks =
      pool.threads() == 1 ? 1 : ceil_div(std::max(pool.threads() * kTasksPerThread, small_tasks), row_tasks);
  const int64_t col_tasks = std::min(groups, target_tasks), cols = ceil_div(groups, col_tasks);
  pool.run(row_tasks * col_tasks, [&](int64_t task) {
    const int64_t p0 = task / col_tasks * rows, p1 = std::min(a.panels, p0 + rows);
    if (p0 >= p1) return;
    const Scratch scratch(pass * kMaxPassBlocks * plan.scratch_bytes());
    const int64_t first = task % col_tasks * cols;
    each_matrix(matrices, pass, first, first + cols, [&](const GroupedMatrix& one, int64_t j0, int64_t j1) {
      multiply_blocked(a, *one.b, plan, p0, p1, j0, j1, one.out, scratch.get());
    });
  });
}

void products(ThreadPool& pool, int64_t m, const Operand& a, const Matrices& matrices) {
  const QuantMatrix& b = *matrices[0].b;
  Operand rows = a;
  const Scratch copy(a.k_stride == 1 ? 0 : m * b.k() * 4);
  if (a.k_stride != 1) {
    auto* to = reinterpret_cast<float*>(copy.get());
    const auto* from = static_cast<const float*>(a.data);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t k = 0; k < b.k(); ++k) to[i * b.k() + k] = from[i * a.row_stride + k * a.k_stride];
    rows.data = to, rows.row_stride = b.k(), rows.k_stride = 1;
  }
  const Activations quantized(pool, m, rows, b);
  if (m <= kQuantRows)
    few_rows(pool, quantized, matrices);
  else
    many_rows(pool, quantized, matrices);
}

}  // namespace

void quant_gemm(ThreadPool& pool, int64_t m, const Operand& a, const QuantMatrix& b, const GemmOutput& out) {
  check(a.type == DType::kF32, "the left side of a matrix product is f32");
  if (m > 0 && b.n() > 0) products(pool, m, a, {{&b, out}});
}

void quant_gemm(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> all) {
  check(a.type == DType::kF32, "the left side of a matrix product is f32");
  Matrices remaining, group;
  for (const PackedProduct& p : all)
    if (m > 0 && p.b->n() > 0) remaining.push_back({&static_cast<const PackedMatrix&>(*p.b).quant(), p.out});
  while (!remaining.empty()) {
    const QuantMatrix& b = *remaining[0].b;
    const auto same_form = [&](const GroupedMatrix& p) {
      return p.b->form() == b.form() && p.b->unit() == b.unit();
    };
    const auto others = std::stable_partition(remaining.begin(), remaining.end(), same_form);
    group.assign(remaining.begin(), others);
    for (const GroupedMatrix& p : group) check(p.b->k() == b.k(), "products with one A have one k");
    products(pool, m, a, group);
    remaining.erase(remaining.begin(), others);
  }
}

}  // namespace makar::kernels
