// The driver of products of bf16. With few rows, each task packs its columns of B. With more, the columns are
// computed in blocks: all threads pack a block of B, then run tasks of rows by columns, each of which packs
// its rows of A.
#include "kernels/cpu/product_bf16.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/tasks.h"

namespace makar::kernels {
namespace {

constexpr int64_t kMaxBlockBytes = int64_t{2} << 20;  // of packed B
constexpr int64_t kMaxTaskRows = 128, kMaxTaskColumns = 2048;
constexpr int64_t kPackTiles =
    4;  // tiles of lines that one task packs: whole cache lines where lines are adjacent
constexpr int64_t kChunkTiles = 64;  // tiles along k per pass: 256 KiB of A
constexpr int64_t kTasksPerThreadBf16 = 4;

int64_t tiles_of(int64_t k) { return std::max<int64_t>(1, ceil_div(k, kTileK)); }

// Packs lines of an operand into tiles.
class Lines {
 public:
  Lines(const Table& table, const Operand& x) : table_(table), x_(x) {}
  Lines(const Table& table, const PackedMatrix& b) : table_(table), packed_(&b) {}
  bool adjacent() const { return packed_ || x_.k_stride != 1; }

  // Tiles [tile, tile + tiles) along k of lines [line, line + count), count <= 16.
  void pack(int64_t line, int64_t count, int64_t tile, int64_t tiles, int64_t k, bool pairs_first,
            std::byte* out) const {
    const int64_t p = tile * kTileK, k_count = std::min(tiles * kTileK, k - p);
    if (k_count == 0) std::memset(out, 0, static_cast<size_t>(tiles * kTileBytes));
    if (!packed_) {
      const auto* from = static_cast<const uint16_t*>(x_.data) + line * x_.row_stride + p * x_.k_stride;
      return table_.pack_tiles_bf16(from, x_.row_stride, x_.k_stride, static_cast<int>(count), k_count,
                                    pairs_first, out);
    }
    const int64_t width = packed_->table().nr;
    const auto* panel = static_cast<const uint16_t*>(packed_->panel(line / width)) + p * width;
    if (line % width + count <= width)
      return table_.pack_tiles_bf16(panel + line % width, 1, width, static_cast<int>(count), k_count,
                                    pairs_first, out);
    // Lines of two or more panels.
    const Scratch lines(k_count * kTileLines * 2);
    auto* to = reinterpret_cast<uint16_t*>(lines.get());
    for (int64_t i = 0, run; i < count; i += run) {
      const int64_t at = line + i;
      run = std::min(count - i, width - at % width);
      const auto* from = static_cast<const uint16_t*>(packed_->panel(at / width)) + p * width + at % width;
      for (int64_t q = 0; q < k_count; ++q) std::copy_n(from + q * width, run, to + q * kTileLines + i);
    }
    table_.pack_tiles_bf16(to, 1, kTileLines, static_cast<int>(count), k_count, pairs_first, out);
  }

 private:
  const Table& table_;
  Operand x_{};
  const PackedMatrix* packed_ = nullptr;
};

struct Product {
  const Table& table;
  int64_t m, n, k;
  Lines a, b;
  void* c;
  DType type;
  int64_t ldc;
  bool accumulate;
  const float* bias;  // f32, may be null

  void store(const float* sums, int64_t sums_stride, int64_t row, int64_t rows, int64_t col,
             int64_t cols) const {
    const float* added = bias ? bias + col : nullptr;
    for (int64_t i = 0; i < rows; ++i, sums += sums_stride) {
      const int64_t at = (row + i) * ldc + col;
      if (type == DType::kF32)
        table.store_sums(sums, added, accumulate, cols, static_cast<float*>(c) + at);
      else
        table.store_sums_bf16(sums, added, accumulate, cols, static_cast<uint16_t*>(c) + at);
    }
  }
};

// Packs tiles [tile, tile + tiles) along k of lines [line, line + count), `step` bytes per tile of lines.
// Lines that are adjacent at each k are packed a tile of k at a time, so that their cache lines are read
// once.
void pack_lines(const Lines& from, int64_t line, int64_t count, int64_t tile, int64_t tiles, int64_t k,
                bool pairs_first, int64_t step, std::byte* out) {
  const int64_t pass = from.adjacent() && k > 0 ? 1 : tiles;
  for (int64_t t = 0; t < tiles; t += pass)
    for (int64_t i = 0; i < count; i += kTileLines)
      from.pack(line + i, std::min<int64_t>(kTileLines, count - i), tile + t, pass, k, pairs_first,
                out + i / kTileLines * step + t * kTileBytes);
}

// Rows [row, row + rows) by columns [col, col + cols), whose packed lines begin at `packed_b`; `all_of_a`:
// the packed rows, or null to pack them here.
void run_task(const Product& p, int64_t row, int64_t rows, int64_t col, int64_t cols,
              const std::byte* packed_b, const std::byte* all_of_a) {
  const int64_t tiles = tiles_of(p.k), row_tiles = ceil_div(rows, kTileLines),
                col_tiles = ceil_div(cols, kTileLines);
  const int64_t chunk = std::min(tiles, kChunkTiles), b_step = tiles * kTileBytes;
  const Scratch packed_a(all_of_a ? 0 : row_tiles * chunk * kTileBytes);
  // The sums of [columns / 32][rows][32], if k takes several passes.
  const int64_t col_blocks = ceil_div(col_tiles, 2), block = row_tiles * kTileLines * kTileBlock;
  const bool one_pass = chunk == tiles;
  const Scratch sums = Scratch::of_floats((one_pass ? 1 : col_blocks) * block);
  for (int64_t t = 0; t < tiles; t += chunk) {
    const int64_t count = std::min(chunk, tiles - t), a_step = (all_of_a ? tiles : count) * kTileBytes;
    const std::byte* a = all_of_a ? all_of_a + t * kTileBytes : packed_a.get();
    if (!all_of_a) pack_lines(p.a, row, rows, t, count, p.k, false, a_step, packed_a.get());
    for (int64_t j = 0; j < col_blocks; ++j) {
      float* c = sums.floats() + (one_pass ? 0 : j) * block;
      p.table.multiply_tiles_bf16({count, a, packed_b + 2 * j * b_step + t * kTileBytes, a_step, b_step,
                                   row_tiles, static_cast<int>(std::min<int64_t>(2, col_tiles - 2 * j)), c,
                                   t > 0});
      if (t + count == tiles)
        p.store(c, kTileBlock, row, rows, col + j * kTileBlock,
                std::min<int64_t>(kTileBlock, cols - j * kTileBlock));
    }
  }
}

// Packs `count` tiles of lines of B from `first` on.
void pack_columns(const Product& p, int64_t first, int64_t count, std::byte* out) {
  const int64_t tiles = tiles_of(p.k), line = first * kTileLines;
  pack_lines(p.b, line, std::min(count * kTileLines, p.n - line), 0, tiles, p.k, true, tiles * kTileBytes,
             out);
}

void run(ThreadPool& pool, const Product& p) {
  if (p.m <= 0 || p.n <= 0) return;
  const int64_t tiles = tiles_of(p.k), line_bytes = tiles * kTileBytes;
  const int64_t all = ceil_div(p.n, kTileLines);
  if (p.m <= kTileBlock) {
    const Scratch packed_a(ceil_div(p.m, kTileLines) * line_bytes);
    pack_lines(p.a, 0, p.m, 0, tiles, p.k, false, line_bytes, packed_a.get());
    pool.run(ceil_div(all, 2), [&](int64_t task) {
      const Scratch packed_b(2 * line_bytes);
      const int64_t first = task * 2, col = first * kTileLines;
      pack_columns(p, first, std::min<int64_t>(2, all - first), packed_b.get());
      run_task(p, 0, p.m, col, std::min<int64_t>(kTileBlock, p.n - col), packed_b.get(), packed_a.get());
    });
    return;
  }
  const int64_t block = std::min(all, std::max<int64_t>(2, kMaxBlockBytes / line_bytes / 2 * 2));
  const Scratch packed_b(block * line_bytes);
  const int64_t wanted = pool.threads() == 1 ? 1 : pool.threads() * kTasksPerThreadBf16;
  const auto step = [](int64_t size, int64_t parts, int64_t max) {
    return std::clamp<int64_t>(ceil_div(ceil_div(size, parts), kTileBlock) * kTileBlock, kTileBlock, max);
  };
  for (int64_t first = 0; first < all; first += block) {
    const int64_t count = std::min(block, all - first), col0 = first * kTileLines,
                  cols = std::min(p.n - col0, count * kTileLines);
    pool.run(ceil_div(count, kPackTiles), [&](int64_t task) {
      const int64_t i = task * kPackTiles;
      pack_columns(p, first + i, std::min(kPackTiles, count - i), packed_b.get() + i * line_bytes);
    });
    const int64_t task_rows = step(p.m, wanted, kMaxTaskRows), row_tasks = ceil_div(p.m, task_rows);
    const int64_t task_cols = step(cols, ceil_div(wanted, row_tasks), kMaxTaskColumns),
                  col_tasks = ceil_div(cols, task_cols);
    pool.run(row_tasks * col_tasks, [&](int64_t task) {
      const int64_t row = task / col_tasks * task_rows, col = task % col_tasks * task_cols;
      run_task(p, row, std::min(task_rows, p.m - row), col0 + col, std::min(task_cols, cols - col),
               packed_b.get() + col / kTileLines * line_bytes, nullptr);
    });
  }
}

// Reads the panels of packed weights in place.
void few_rows(ThreadPool& pool, int m, const Bf16* a, const PackedMatrix& b, const float* bias, Bf16* c) {
  const Table& t = b.table();
  const int64_t n = b.n(), k = b.k(), panels = ceil_div(n, t.nr);
  const int64_t tasks = std::min(panels, stream_tasks(pool, n * k * 2));
  pool.run(tasks, [&](int64_t task) {
    const Scratch sums = Scratch::of_floats(m * t.nr);
    for (int64_t j = panels * task / tasks; j < panels * (task + 1) / tasks; ++j) {
      const int64_t col = j * t.nr, cols = std::min<int64_t>(t.nr, n - col);
      t.rows_bf16(m, k, &a->bits, k, static_cast<const uint16_t*>(b.panel(j)), sums.floats());
      for (int i = 0; i < m; ++i)
        t.store_sums_bf16(sums.floats() + i * t.nr, bias ? bias + col : nullptr, false, cols,
                          &c[i * n + col].bits);
    }
  });
}

}  // namespace

void product_bf16(ThreadPool& pool, const ProductBf16& a, const Table& table) {
  const Scratch bias = Scratch::of_floats(a.bias ? a.n : 0);
  for (int64_t j = 0; a.bias && j < a.n; ++j) bias.floats()[j] = from_bf16(a.bias[j].bits);
  run(pool, {table, a.m, a.n, a.k, Lines(table, a.a), Lines(table, a.b), a.c, a.type, a.ldc, a.accumulate,
             bias.floats()});
}

void product_bf16(ThreadPool& pool, int64_t m, const Bf16* a, const PackedMatrix& b, const float* bias,
                  Bf16* c) {
  const Table& t = b.table();
  check(b.type() == DType::kBF16, "a product of bf16 reads weights packed as bf16");
  if (m > 0 && m <= kMaxRowsBf16) return few_rows(pool, static_cast<int>(m), a, b, bias, c);
  run(pool, {t, m, b.n(), b.k(), Lines(t, Operand{a, DType::kBF16, b.k(), 1}), Lines(t, b), c, DType::kBF16,
             b.n(), false, bias});
}

}  // namespace makar::kernels
