// Writes keys and values into cache pages, in the layout of KeyPages. Per head, a tile is:
//   keys    f32, f16  [kKeyTile / nr][dim][nr]
//           q8_0      the same in int8, then f16 scales [kKeyTile / nr][blocks][nr]
//   values  f32, f16  [kKeyTile][dim]
//           q8_0      the same in int8, then f16 scales [kKeyTile][blocks]
// A block is 32 dimensions of one token, or the remainder: its largest magnitude maps to 127, as in ggml.
#pragma once
#include "kernels/cpu/table.h"

namespace makar::kernels {

// Stores key or value `at` of a tile for one head, `dim` floats. Values beyond the range of f16 are clamped
// to its largest number.
void store_key(DType type, const float* k, int64_t dim, int64_t at, std::byte* tile,
               const Table& table = cpu());
void store_value(DType type, const float* v, int64_t dim, int64_t at, std::byte* tile);

}  // namespace makar::kernels
