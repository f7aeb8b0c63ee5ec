// Products of quantized weights with AMX: 16 rows by 16 columns. One instruction multiplies the bytes of a
// part (16 or 32 k) and leaves its exact integer sums in a tile; the f32 work is the formula of quant.cpp,
// bit for bit. The tiles of a block are computed while the sums of the previous block are scaled.
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/amx/config.h"
#include "kernels/cpu/isa/quant_parts.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

constexpr int kTileInts = kQuantTile * kQuantCols;

// The sums of one block, per part.
template <int P>
struct Sums {
  alignas(64) int32_t x[P][kTileInts];
};

// Starts the products of two parts: their rows at `a`, their weights at `w`. Set 0 uses tiles 0 and 1 for the
// sums, set 1 tiles 6 and 7.
template <int Set, int Part>
inline void multiply(const std::byte* a, const std::byte* w) {
  _tile_loadd(2, a, kQuantBlock);
  _tile_loadd(4, w, kStepBytes);
  _tile_loadd(3, a + Part, kQuantBlock);
  _tile_loadd(5, w + Part * kQuantCols, kStepBytes);
  if constexpr (Set == 0) {
    _tile_zero(0);
    _tile_dpbssd(0, 2, 4);
    _tile_zero(1);
    _tile_dpbssd(1, 3, 5);
  } else {
    _tile_zero(6);
    _tile_dpbssd(6, 2, 4);
    _tile_zero(7);
    _tile_dpbssd(7, 3, 5);
  }
}
// Stores the sums of multiply() with the same set.
template <int Set>
inline void store_sums(int32_t (*out)[kTileInts]) {
  if constexpr (Set == 0) {
    _tile_stored(0, out[0], 64);
    _tile_stored(1, out[1], 64);
  } else {
    _tile_stored(6, out[0], 64);
    _tile_stored(7, out[1], 64);
  }
}

// The output columns of one panel of weights.
struct PanelOutput {
  float* c;
  int64_t ldc;
  __mmask16 columns;
  bool accumulate;

  Floats start(int i) const {
    return accumulate ? _mm512_maskz_loadu_ps(columns, c + i * ldc) : zero_floats();
  }
  void store(int i, Floats y) const { _mm512_mask_storeu_ps(c + i * ldc, columns, y); }
};

// Up to 16 rows by one panel. Several blocks are in progress, so that none waits for another: one is
// multiplied, the sums of the previous block are stored, and sums that were stored earlier are scaled.
template <int Form, bool Full>
struct TilePanel {
  static constexpr QuantForm F = kQuantForms[Form];
  static constexpr int P = parts_of(F), kBlocks = blocks_of(F), kRows = kQuantTile;
  static constexpr int kLag = P == 2 ? 2 : 1;  // blocks between multiplying and scaling
  static_assert(P == 2 || P == 4);
  int rows;
  const std::byte *a, *b;
  Prefetch prefetch;
  Sums<P>* sums;  // of even and odd blocks; separate from y, which stays in registers
  Floats y[kRows];

  int count() const { return Full ? kRows : rows; }
  const std::byte* rows_of(int64_t block) const { return a + block * activation_bytes(F, count()); }
  const std::byte* group_of(int64_t block) const { return b + block / kBlocks * group_bytes(F); }
  const std::byte* values_of(int64_t block) const {
    return group_of(block) + scale_bytes(F) + block % kBlocks * value_bytes(F);
  }

  // Multiplies `block` and stores the sums of the previous block; with four parts, in two halves.
  template <int Odd>
  [[gnu::always_inline]] void multiply_and_store(int64_t block, int64_t blocks) {
    const std::byte *x = rows_of(block), *w = values_of(block);
    constexpr int kHalf = 2 * F.part;
    if constexpr (P == 2) {
      if (block < blocks) multiply<Odd, F.part>(x, w);
      if (block >= 1 && block <= blocks) store_sums<1 - Odd>(sums[1 - Odd].x);
    } else {
      if (block < blocks) multiply<0, F.part>(x, w);
      if (block >= 1 && block <= blocks) store_sums<1>(sums[1 - Odd].x + 2);
      if (block < blocks) multiply<1, F.part>(x + kHalf, w + kHalf * kQuantCols);
      if (block < blocks) store_sums<0>(sums[Odd].x);
    }
  }
  [[gnu::always_inline]] void scale(int64_t block, const Sums<P>& from) {
    const Scales<Form> scales(group_of(block));
    Floats factor[P], min[P];
    scales.read(static_cast<int>(block % kBlocks), factor, min);
    const Floats base = seed_base(factor);
    const auto* d = reinterpret_cast<const float*>(rows_of(block) + count() * kQuantBlock);
    const auto one_row = [&](int i) {
      Floats t = base;
      MAKAR_UNROLLED
      for (int p = 0; p < P; ++p) {
        const Ints x = _mm512_load_si512(from.x[p] + i * kQuantCols);
        t = fma(seed_plus(sum(x, all_ints(kSeed))), factor[p], t);
      }
      MAKAR_UNROLLED
      for (int p = 0; p < (F.mins ? P : 0); ++p) t = fma(min[p], d[(1 + p) * count() + i], t);
      y[i] = fma(t, d[i], y[i]);
    };
    if constexpr (Full) {
      MAKAR_UNROLLED
      for (int i = 0; i < kRows; ++i) one_row(i);
    } else {
      for (int i = 0; i < rows; ++i) one_row(i);
    }
  }
  template <int Odd>
  [[gnu::always_inline]] void step(int64_t block, int64_t blocks) {
    for (int64_t at = 0; at < prefetch.step && block < blocks; at += 64)
      __builtin_prefetch(prefetch.at + at, 0, 2);
    prefetch.at += prefetch.step;
    multiply_and_store<Odd>(block, blocks);
    if (block >= kLag && block < blocks + kLag) scale(block - kLag, sums[(Odd + kLag) % 2]);
  }
};

template <int Form, bool Full>
inline void tile_panel(int64_t blocks, int rows, const std::byte* a, const std::byte* b,
                       const PanelOutput& out, Prefetch prefetch) {
  constexpr int P = parts_of(kQuantForms[Form]);
  Sums<P> sums[2];
  TilePanel<Form, Full> panel;
  panel.rows = rows, panel.a = a, panel.b = b, panel.prefetch = prefetch, panel.sums = sums;
  const int count = panel.count();
  MAKAR_UNROLLED
  for (int i = 0; i < kQuantTile; ++i) panel.y[i] = i < count ? out.start(i) : zero_floats();
  for (int64_t block = 0; block < blocks + TilePanel<Form, Full>::kLag; block += 2) {
    panel.template step<0>(block, blocks);
    panel.template step<1>(block + 1, blocks);
  }
  MAKAR_UNROLLED
  for (int i = 0; i < kQuantTile; ++i)
    if (i < count) out.store(i, panel.y[i]);
}

template <int Form>
void tiles(const QuantProduct& q) {
  constexpr QuantForm F = kQuantForms[Form];
  int configured = 0;
  for (int first = 0; first < q.rows; first += q.panel_rows) {
    const int rows = std::min(q.panel_rows, q.rows - first);
    if (rows != configured) configure_tiles(rows, F.part), configured = rows;
    const int64_t panel = first / q.panel_rows;
    const auto* a =
        static_cast<const std::byte*>(q.a) + panel * q.a_panel + q.first_block * activation_bytes(F, rows);
    const auto* b = static_cast<const std::byte*>(q.b);
    Prefetch prefetch{b, 0};
    if (q.prefetch)
      prefetch = {static_cast<const std::byte*>(q.prefetch) + panel * q.blocks * q.prefetch_step,
                  q.prefetch_step};
    for (int64_t col = 0; col < q.cols; col += kQuantCols, b += q.b_panel, prefetch.at += q.prefetch_panel) {
      const int64_t columns = std::min<int64_t>(q.cols - col, kQuantCols);
      const PanelOutput out{q.c + first * q.ldc + col, q.ldc, static_cast<__mmask16>((1u << columns) - 1),
                            q.accumulate};
      if (rows == kQuantTile)
        tile_panel<Form, true>(q.blocks, rows, a, b, out, prefetch);
      else
        tile_panel<Form, false>(q.blocks, rows, a, b, out, prefetch);
    }
  }
  _tile_release();
}

using TilesFn = void (*)(const QuantProduct&);
template <int Form>
constexpr TilesFn tiles_of() {
  if constexpr (kQuantForms[Form].values == QuantValues::kInt8)
    return tiles<Form>;
  else
    return nullptr;
}
template <int... F>
constexpr std::array<TilesFn, sizeof...(F)> tiles_table(std::integer_sequence<int, F...>) {
  return {tiles_of<F>()...};
}
constexpr auto kTiles = tiles_table(std::make_integer_sequence<int, kQuantFormCount>());

}  // namespace

void fill_tiles(Table& table) {
  table.quant_tile = [](const QuantProduct& q) { kTiles[q.form](q); };
}

}  // namespace makar::kernels::MAKAR_ISA
