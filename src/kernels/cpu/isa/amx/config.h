// The shapes of AMX tiles.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/table.h"

namespace makar::kernels::MAKAR_ISA {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

inline void load_config(const TileConfig& c) {
  asm volatile("" : : "r"(&c) : "memory");
  _tile_loadconfig(&c);
}

// Rows of activations by 16 columns, `part` k at a time: tiles 0, 1, 6 and 7 hold sums, 2 and 3 activations,
// 4 and 5 weights.
inline void configure_tiles(int rows, int part) {
  TileConfig c;
  for (const int sums : {0, 1, 6, 7}) c.rows[sums] = static_cast<uint8_t>(rows), c.row_bytes[sums] = 64;
  for (const int a : {2, 3})
    c.rows[a] = static_cast<uint8_t>(rows), c.row_bytes[a] = static_cast<uint16_t>(part);
  for (const int w : {4, 5}) c.rows[w] = static_cast<uint8_t>(part / 4), c.row_bytes[w] = 64;
  load_config(c);
}

// All tiles with 16 rows of 64 bytes.
inline void configure_whole_tiles() {
  TileConfig c;
  for (int i = 0; i < 8; ++i) c.rows[i] = 16, c.row_bytes[i] = 64;
  load_config(c);
}

void fill_tiles(Table& table);
void fill_product_bf16(Table& table);

}  // namespace makar::kernels::MAKAR_ISA
