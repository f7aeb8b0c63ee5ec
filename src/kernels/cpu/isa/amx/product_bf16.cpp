// Products of bf16 with AMX: 32 by 32 sums in four tiles.
#include <algorithm>

#include "kernels/cpu/isa/amx/config.h"
#include "kernels/cpu/tile_bf16.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// Tiles along k per pass: their lines of B, 24 KiB, stay in the L1 cache while all lines of A pass by.
constexpr int64_t kPassTiles = 12;

// `count` tiles along k for one or two tiles of rows. Tiles 0 to 3 hold sums, 4 and 5 lines of A, 6 and 7
// lines of B.
template <int Rows, int Cols>
void multiply(const TilesBf16& q, int64_t count, const std::byte* a, const std::byte* b, float* c,
              bool accumulate) {
  constexpr int kStride = kTileBlock * 4, kTile = 64;
  float *c00 = c, *c01 = c + kTileLines, *c10 = c + kTileLines * kTileBlock, *c11 = c10 + kTileLines;
  if (accumulate) {
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
  for (int64_t t = 0; t < count; ++t, a += kTileBytes, b += kTileBytes) {
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

template <int Cols>
void multiply_all(const TilesBf16& q) {
  for (int64_t t = 0; t == 0 || t < q.tiles; t += kPassTiles) {
    const int64_t count = std::min(kPassTiles, q.tiles - t);
    const std::byte *a = q.a + t * kTileBytes, *b = q.b + t * kTileBytes;
    float* c = q.c;
    const bool accumulate = q.accumulate || t > 0;
    int64_t r = 0;
    for (; r + 2 <= q.row_tiles; r += 2, a += 2 * q.a_step, c += 2 * kTileLines * kTileBlock)
      multiply<2, Cols>(q, count, a, b, c, accumulate);
    if (r < q.row_tiles) multiply<1, Cols>(q, count, a, b, c, accumulate);
  }
}

void multiply_tiles(const TilesBf16& q) {
  configure_whole_tiles();
  q.col_tiles == 2 ? multiply_all<2>(q) : multiply_all<1>(q);
  _tile_release();
}

}  // namespace

void fill_product_bf16(Table& table) { table.multiply_tiles_bf16 = multiply_tiles; }

}  // namespace makar::kernels::MAKAR_ISA
