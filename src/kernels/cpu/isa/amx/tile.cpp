// Products of quantised weights with AMX: 16 rows by 16 columns. One instruction multiplies the bytes of a
// part (16 or 32 k) and leaves its exact integer sums in a tile; the f32 work is the formula of quant.cpp,
// bit for bit. The tiles of a block are computed while the sums of the block before are scaled.
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/amx/config.h"
#include "kernels/cpu/isa/quant_parts.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

constexpr int kTileInts = kQuantTile * kQuantCols;

template <int P>
struct Sums {
  alignas(64) int32_t x[P][kTileInts];
};

// The sums of part p: rows at `a`, weights at `w`.
template <int Part, int P>
inline void part_sums(const std::byte* a, const std::byte* w, Sums<P>& out) {
  _tile_zero(0), _tile_loadd(2, a, kQuantBlock), _tile_loadd(4, w, kStepBytes);
  _tile_dpbssd(0, 2, 4), _tile_stored(0, out.x[0], 64);
  _tile_zero(1), _tile_loadd(3, a + Part, kQuantBlock), _tile_loadd(5, w + Part * kQuantCols, kStepBytes);
  _tile_dpbssd(1, 3, 5), _tile_stored(1, out.x[1], 64);
  if constexpr (P == 4) {
    _tile_zero(6), _tile_loadd(2, a + 2 * Part, kQuantBlock);
    _tile_loadd(4, w + 2 * Part * kQuantCols, kStepBytes);
    _tile_dpbssd(6, 2, 4), _tile_stored(6, out.x[2], 64);
    _tile_zero(7), _tile_loadd(3, a + 3 * Part, kQuantBlock);
    _tile_loadd(5, w + 3 * Part * kQuantCols, kStepBytes);
    _tile_dpbssd(7, 3, 5), _tile_stored(7, out.x[3], 64);
  }
}

// One panel of weights and the results of its columns.
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

template <int Form, bool Full>
inline void tile_panel(int64_t blocks, int rows, const std::byte* a, const std::byte* b,
                       const PanelOutput& out, Ahead ahead) {
  constexpr QuantForm F = kQuantForms[Form];
  constexpr int P = parts_of(F), kBlocks = blocks_of(F), kRows = kQuantTile;
  const int count = Full ? kRows : rows;
  const int64_t a_block = activation_bytes(F, count);
  Floats y[kRows];
  MAKAR_UNROLLED
  for (int i = 0; i < kRows; ++i) y[i] = i < count ? out.start(i) : zero_floats();
  Sums<P> sums[2];
  const auto values = [&](int64_t block) {
    return b + block / kBlocks * group_bytes(F) + scale_bytes(F) + block % kBlocks * value_bytes(F);
  };
  part_sums<F.part, P>(a, values(0), sums[0]);
  for (int64_t block = 0; block < blocks; ++block, a += a_block) {
    if (block + 1 < blocks) part_sums<F.part, P>(a + a_block, values(block + 1), sums[(block + 1) & 1]);
    for (int64_t at = 0; at < ahead.step; at += 64) __builtin_prefetch(ahead.at + at, 0, 2);
    ahead.at += ahead.step;
    const Scales<Form> scales(b + block / kBlocks * group_bytes(F));
    Floats scale[P], min[P];
    scales.read(static_cast<int>(block % kBlocks), scale, min);
    const Floats base = seed_base(scale);
    const Sums<P>& s = sums[block & 1];
    const auto* d = reinterpret_cast<const float*>(a + count * kQuantBlock);
    const auto one_row = [&](int i) {
      Floats t = base;
      MAKAR_UNROLLED
      for (int p = 0; p < P; ++p)
        t = fma(on_seed(sum(_mm512_load_si512(s.x[p] + i * kQuantCols), all_ints(kSeed))), scale[p], t);
      MAKAR_UNROLLED
      for (int p = 0; p < P && F.mins; ++p) t = fma(min[p], d[(1 + p) * count + i], t);
      y[i] = fma(t, d[i], y[i]);
    };
    if constexpr (Full) {
      MAKAR_UNROLLED
      for (int i = 0; i < kRows; ++i) one_row(i);
    } else {
      for (int i = 0; i < count; ++i) one_row(i);
    }
  }
  MAKAR_UNROLLED
  for (int i = 0; i < kRows; ++i)
    if (i < count) out.store(i, y[i]);
}

template <int Form>
void tiles(const QuantProduct& q) {
  constexpr QuantForm F = kQuantForms[Form];
  int configured = 0;
  for (int first = 0; first < q.rows; first += q.each) {
    const int rows = std::min(q.each, q.rows - first);
    if (rows != configured) configure_tiles(rows, F.part), configured = rows;
    const int64_t panel = first / q.each;
    const auto* a =
        static_cast<const std::byte*>(q.a) + panel * q.a_panel + q.first_block * activation_bytes(F, rows);
    const auto* b = static_cast<const std::byte*>(q.b);
    Ahead ahead{b, 0};
    if (q.ahead)
      ahead = {static_cast<const std::byte*>(q.ahead) + panel * q.blocks * q.ahead_step, q.ahead_step};
    for (int64_t col = 0; col < q.cols; col += kQuantCols, b += q.b_panel, ahead.at += q.ahead_panel) {
      const int64_t columns = std::min<int64_t>(q.cols - col, kQuantCols);
      const PanelOutput out{q.c + first * q.ldc + col, q.ldc, static_cast<__mmask16>((1u << columns) - 1),
                            q.accumulate};
      if (rows == kQuantTile)
        tile_panel<Form, true>(q.blocks, rows, a, b, out, ahead);
      else
        tile_panel<Form, false>(q.blocks, rows, a, b, out, ahead);
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
