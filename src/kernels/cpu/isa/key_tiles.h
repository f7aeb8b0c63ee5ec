// Reads a tile of a cache: f32 in place, f16 and q8_0 widened into scratch memory that stays in the L1 cache.
// key_pages.h defines the layouts.
#pragma once
#include <algorithm>

#include "kernels/cpu/isa/quad.h"
#include "kernels/cpu/key_pages.h"

namespace makar::kernels::MAKAR_ISA {

// Panels with the first `key_count` keys of a tile.
inline const float* read_keys(const Table& t, DType type, const std::byte* tile, int64_t dim,
                              int64_t key_count, float* panels) {
  if (type == DType::kF32) return reinterpret_cast<const float*>(tile);
  const int64_t count = (key_count + kNr - 1) / kNr;
  if (type == DType::kF16) {
    t.widen(type, reinterpret_cast<const uint16_t*>(tile), count * dim * kNr, panels);
    return panels;
  }
  const int8_t* q = reinterpret_cast<const int8_t*>(tile);
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(tile + kKeyTile * dim);
  float column_scales[kNr];
  float* out = panels;
  for (int64_t p = 0; p < count; ++p)
    for (int64_t remaining = dim; remaining > 0; remaining -= kQuantKeyBlock, scales += kNr) {
      t.widen(DType::kF16, scales, kNr, column_scales);
      for (int64_t d = std::min(remaining, kQuantKeyBlock); d > 0; --d, q += kNr, out += kNr)
        for (int i = 0; i < kNr; ++i) out[i] = column_scales[i] * static_cast<float>(q[i]);
    }
  return panels;
}

// The first `key_count` values of a tile as f32 [key_count][dim].
inline const float* read_values(const Table& t, DType type, const std::byte* tile, int64_t dim,
                                int64_t key_count, float* out) {
  if (type == DType::kF32) return reinterpret_cast<const float*>(tile);
  if (type == DType::kF16) {
    t.widen(type, reinterpret_cast<const uint16_t*>(tile), key_count * dim, out);
    return out;
  }
  const int8_t* q = reinterpret_cast<const int8_t*>(tile);
  const F16* scales = reinterpret_cast<const F16*>(tile + kKeyTile * dim);
  float* to = out;
  for (int64_t j = 0; j < key_count; ++j)
    for (int64_t d = 0; d < dim; d += kQuantKeyBlock, ++scales) {
      const float scale = quad_one(scales);
      const int64_t n = std::min(kQuantKeyBlock, dim - d);
      for (int64_t i = 0; i < n; ++i) to[i] = scale * static_cast<float>(q[i]);
      q += n, to += n;
    }
  return out;
}

}  // namespace makar::kernels::MAKAR_ISA
