// The values that a block can represent once its scales are chosen: scale * q + offset per element, q in [lo,
// hi].
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace makar {

struct Grid {
  int n = 0;  // elements per block
  int lo = 0, hi = 0;
  float scale[256], offset[256];

  int8_t nearest(int i, float x) const;
  float value(int i, int8_t q) const { return scale[i] * static_cast<float>(q) + offset[i]; }
};

Grid read_grid(DType type, const std::byte* block);
// Packs the integers into a block; its scales do not change.
void pack_integers(DType type, const int8_t* q, std::byte* block);

}  // namespace makar
