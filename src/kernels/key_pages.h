// Writing keys and values into the pages of a cache, in the layout of KeyPages. One head's tile:
//   keys    f32, f16  [kKeyTile / nr][dim][nr]
//           q8_0      the same in int8, then f16 scales [kKeyTile / nr][blocks][nr]
//   values  f32, f16  [kKeyTile][dim]
//           q8_0      the same in int8, then f16 scales [kKeyTile][blocks]
// A block is 32 dimensions of one token, or what is left of them: its largest magnitude is 127, as in ggml.
#pragma once
#include "kernels/kernels.h"

namespace makar::kernels {

constexpr int64_t kQuantKeyBlock = 32;
constexpr int64_t key_blocks(int64_t dim) { return (dim + kQuantKeyBlock - 1) / kQuantKeyBlock; }

// Bytes of one head's tile of keys, and of values.
int64_t key_tile_bytes(DType type, int64_t dim);
int64_t value_tile_bytes(DType type, int64_t dim);

// Key and value number `at` of a tile, one head, `dim` floats each. What is beyond the range of f16 becomes
// its largest number.
void store_key(DType type, const float* k, int64_t dim, int64_t at, std::byte* tile,
               const Table& table = cpu());
void store_value(DType type, const float* v, int64_t dim, int64_t at, std::byte* tile);

}  // namespace makar::kernels
