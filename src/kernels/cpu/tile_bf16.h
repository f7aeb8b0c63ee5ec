// The tiles of products of bf16: 16 lines (rows of A, or of B) by 32 k. Tiles of A are [16 lines][32 k];
// those of B [16 pairs of k][16 lines][2].
#pragma once
#include <cstddef>
#include <cstdint>

namespace makar::kernels {

constexpr int kTileLines = 16, kTileK = 32, kTilePairs = kTileK / 2;
constexpr int64_t kTileBytes = int64_t{kTileLines} * kTileK * 2;
constexpr int kTileBlock = 2 * kTileLines;  // columns of the sums that are computed together
constexpr int kMaxRowsBf16 = 4;             // rows up to which packed weights are read without tiles

// c[i][j] = (accumulate ? c[i][j] : 0) + the products of `tiles` tiles along k, for any number of tiles of
// lines of A and one or two of B; c is [row_tiles * kTileLines][kTileBlock].
struct TilesBf16 {
  int64_t tiles;
  const std::byte *a, *b;
  int64_t a_step, b_step;  // bytes between tiles of lines
  int64_t row_tiles;
  int col_tiles;
  float* c;
  bool accumulate;
};

}  // namespace makar::kernels
