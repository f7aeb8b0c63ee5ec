#include "kernels/cpu/key_pages.h"

#include <algorithm>
#include <cmath>

namespace makar::kernels {
namespace {

uint16_t half(float x) {
  constexpr float kMax = 65504.0f;
  return to_f16(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

// Quantizes one block: calls put(i, q) for each of `n` values and returns the scale. NaN is preserved.
template <class Put>
uint16_t quantize(const float* x, int64_t n, Put&& put) {
  float max = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(x[i]);
    max = std::max(max, std::fabs(x[i]));
  }
  if (!finite) {
    for (int64_t i = 0; i < n; ++i) put(i, int8_t{1});
    return to_f16(NAN);
  }
  const float scale = std::min(max / 127.0f, 65504.0f), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int64_t i = 0; i < n; ++i)
    put(i, static_cast<int8_t>(std::clamp(std::round(x[i] * inverse), -127.0f, 127.0f)));
  return half(scale);
}

}  // namespace

void store_key(DType type, const float* k, int64_t dim, int64_t at, std::byte* tile, const Table& t) {
  const int64_t panel = at / t.nr, lane = at % t.nr, offset = panel * dim * t.nr + lane;
  if (type == DType::kF32) {
    float* to = reinterpret_cast<float*>(tile) + offset;
    for (int64_t d = 0; d < dim; ++d) to[d * t.nr] = k[d];
  } else if (type == DType::kF16) {
    uint16_t* to = reinterpret_cast<uint16_t*>(tile) + offset;
    for (int64_t d = 0; d < dim; ++d) to[d * t.nr] = half(k[d]);
  } else {
    int8_t* to = reinterpret_cast<int8_t*>(tile) + offset;
    uint16_t* scales =
        reinterpret_cast<uint16_t*>(tile + kKeyTile * dim) + panel * key_blocks(dim) * t.nr + lane;
    for (int64_t d = 0; d < dim; d += kQuantKeyBlock)
      scales[d / kQuantKeyBlock * t.nr] = quantize(k + d, std::min(kQuantKeyBlock, dim - d),
                                                   [&](int64_t i, int8_t q) { to[(d + i) * t.nr] = q; });
  }
}

void store_value(DType type, const float* v, int64_t dim, int64_t at, std::byte* tile) {
  if (type == DType::kF32) {
    std::copy_n(v, dim, reinterpret_cast<float*>(tile) + at * dim);
  } else if (type == DType::kF16) {
    std::transform(v, v + dim, reinterpret_cast<uint16_t*>(tile) + at * dim, half);
  } else {
    int8_t* to = reinterpret_cast<int8_t*>(tile) + at * dim;
    uint16_t* scales = reinterpret_cast<uint16_t*>(tile + kKeyTile * dim) + at * key_blocks(dim);
    for (int64_t d = 0; d < dim; d += kQuantKeyBlock)
      scales[d / kQuantKeyBlock] =
          quantize(v + d, std::min(kQuantKeyBlock, dim - d), [&](int64_t i, int8_t q) { to[d + i] = q; });
  }
}

}  // namespace makar::kernels
