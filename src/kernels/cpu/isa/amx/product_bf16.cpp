// Products of bf16 with AMX: 32 by 32 sums in four tiles.
#include "kernels/cpu/isa/amx/config.h"
#include "kernels/cpu/tile_bf16.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// Tiles 0 to 3 hold sums, 4 and 5 lines of A, 6 and 7 lines of B.
template <int Rows, int Cols>
void multiply(const TilesBf16& q) {
  constexpr int kStride = kTileBlock * 4, kTile = 64;
  float *c00 = q.c, *c01 = q.c + kTileLines, *c10 = q.c + kTileLines * kTileBlock, *c11 = c10 + kTileLines;
  if (q.accumulate) {
    _tile_loadd(0, c00, kStride);
    if constexpr (Cols == 2) _tile_loadd(1, c01, kStride);
    if constexpr (Rows == 2) _tile_loadd(2, c10, kStride);
    if constexpr (Rows == 2 && Cols == 2) _tile_loadd(3, c11, kStride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const std::byte *a = q.a, *b = q.b;
  for (int64_t t = 0; t < q.tiles; ++t, a += kTileBytes, b += kTileBytes) {
    _tile_loadd(4, a, kTile);
    _tile_loadd(6, b, kTile);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Rows == 2) {
      _tile_loadd(5, a + q.a_step, kTile);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (Cols == 2) {
      _tile_loadd(7, b + q.b_step, kTile);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (Rows == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c00, kStride);
  if constexpr (Cols == 2) _tile_stored(1, c01, kStride);
  if constexpr (Rows == 2) _tile_stored(2, c10, kStride);
  if constexpr (Rows == 2 && Cols == 2) _tile_stored(3, c11, kStride);
}

void multiply_tiles(const TilesBf16& q) {
  configure_whole_tiles();
  if (q.row_tiles == 2)
    q.col_tiles == 2 ? multiply<2, 2>(q) : multiply<2, 1>(q);
  else
    q.col_tiles == 2 ? multiply<1, 2>(q) : multiply<1, 1>(q);
  _tile_release();
}

}  // namespace

void fill_product_bf16(Table& table) { table.multiply_tiles_bf16 = multiply_tiles; }

}  // namespace makar::kernels::MAKAR_ISA
