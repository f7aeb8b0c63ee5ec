// Rotary positions (Su et al., 2021) on the first `rotary` of each head's dimensions.
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/parts.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// One row of `heads` heads; cos and sin hold rotary/2 values; sign -1 turns back (the gradient). A turn reads
// its two numbers before it writes them, so y may be x; the pragmas say that nothing else overlaps.
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

}  // namespace

void fill_rope(Table& t) { t.rope = rope; }

}  // namespace makar::kernels::MAKAR_ISA
