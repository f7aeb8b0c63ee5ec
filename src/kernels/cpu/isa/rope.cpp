// Rotary positions (Su et al., 2021) on the first `rotary` of each head's dimensions.
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/parts.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// One row of `heads` heads; cos and sin hold rotary/2 values; sign -1 turns back (the gradient).
void rope(const float* x, float* y, const RopeRow& r) {
  const int half = r.rotary / 2;
  for (int h = 0; h < r.heads; ++h, x += r.head_dim, y += r.head_dim) {
    if (r.interleaved) {
      for (int i = 0; i < half; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1], c = r.cos[i], s = r.sin[i] * r.sign;
        y[2 * i] = madd(a, c, -(b * s));
        y[2 * i + 1] = madd(b, c, a * s);
      }
    } else {
      for (int i = 0; i < half; ++i) {
        const float a = x[i], b = x[i + half], c = r.cos[i], s = r.sin[i] * r.sign;
        y[i] = madd(a, c, -(b * s));
        y[i + half] = madd(b, c, a * s);
      }
    }
    for (int i = r.rotary; i < r.head_dim; ++i) y[i] = x[i];
  }
}

}  // namespace

void fill_rope(Table& t) { t.rope = rope; }

}  // namespace makar::kernels::MAKAR_ISA
