// Rotary positions (Su et al., 2021) on the first `rotary` dimensions of each head.
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// One row of `heads` heads; cos and sin hold rotary/2 values; sign -1 is the inverse rotation (the gradient).
// Both values of a pair are read before they are written, so y may be x; the pragmas state that nothing else
// overlaps.
void rope(const float* x, float* y, const RopeRow& r) {
  const int half = r.rotary / 2, dim = r.head_dim;
  const float *cos = r.cos, *sin = r.sin, sign = r.sign;
  for (int h = 0; h < r.heads; ++h, x += dim, y += dim) {
    if (r.interleaved) {
#pragma clang loop vectorize(assume_safety)
      for (int i = 0; i < half; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1], c = cos[i], s = sin[i] * sign;
        y[2 * i] = madd(a, c, -(b * s));
        y[2 * i + 1] = madd(b, c, a * s);
      }
    } else {
#pragma clang loop vectorize(assume_safety)
      for (int i = 0; i < half; ++i) {
        const float a = x[i], b = x[i + half], c = cos[i], s = sin[i] * sign;
        y[i] = madd(a, c, -(b * s));
        y[i + half] = madd(b, c, a * s);
      }
    }
    if (x != y)
      for (int i = r.rotary; i < dim; ++i) y[i] = x[i];
  }
}

// The angle is rounded to f32 as in the reference implementation.
void rope_cos_sin(float position, const float* frequencies, int64_t n, double factor, float* cos,
                  float* sin) {
  for (int64_t i = 0; i < n; ++i) {
    const CosSin at = cos_sin_of(position * frequencies[i]);
    cos[i] = static_cast<float>(at.cos * factor);
    sin[i] = static_cast<float>(at.sin * factor);
  }
}

}  // namespace

void fill_rope(Table& t) {
  t.rope = rope;
  t.rope_cos_sin = rope_cos_sin;
}

}  // namespace makar::kernels::MAKAR_ISA
