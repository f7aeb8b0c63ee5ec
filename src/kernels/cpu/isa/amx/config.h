// The shapes of AMX tiles: 0, 1, 6 and 7 hold sums, 2 and 3 activations, 4 and 5 weights.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/table.h"

namespace makar::kernels::MAKAR_ISA {

// Rows of activations by 16 columns, `part` k at a time.
inline void configure_tiles(int rows, int part) {
  struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } c;
  static_assert(sizeof(Config) == 64);
  for (const int sums : {0, 1, 6, 7}) c.rows[sums] = static_cast<uint8_t>(rows), c.row_bytes[sums] = 64;
  for (const int a : {2, 3})
    c.rows[a] = static_cast<uint8_t>(rows), c.row_bytes[a] = static_cast<uint16_t>(part);
  for (const int w : {4, 5}) c.rows[w] = static_cast<uint8_t>(part / 4), c.row_bytes[w] = 64;
  asm volatile("" : : "r"(&c) : "memory");
  _tile_loadconfig(&c);
}

void fill_tiles(Table& table);

}  // namespace makar::kernels::MAKAR_ISA
