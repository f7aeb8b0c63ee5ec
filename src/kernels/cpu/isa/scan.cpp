// Recurrent layers: short convolutions and selective scans.
#include <algorithm>

#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/parts.h"
#include "kernels/cpu/isa/quad.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

void conv_row(const float* const* rows, int64_t taps, const float* w, const float* bias, float* y,
              int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = bias ? bias[i] : 0.0f;
  for (int64_t k = 0; k < taps; ++k) {
    const float *x = rows[k], *v = w + k * n;
    for (int64_t i = 0; i < n; ++i) y[i] = madd(v[i], x[i], y[i]);
  }
}

// exp_of for the factor e^(dt a) of a state, which is not positive.
float decay(float x) { return x < -87.33f ? 0.0f : exp_within(x); }

// h = e^(dt a) h + input b.
void advance(const ScanHeads& s, const float* a, float dt, float input, const float* b, const float* before,
             float* h) {
  const int64_t states = s.states;
  if (s.shared_a) {
    const float keep = decay(dt * a[0]);
    for (int64_t n = 0; n < states; ++n) h[n] = madd(keep, before[n], input * b[n]);
  } else {
    for (int64_t n = 0; n < states; ++n) h[n] = madd(decay(dt * a[n]), before[n], input * b[n]);
  }
}

// Advances the states and returns their product with c. kStates: the number of states if it is known when
// compiling, else 0; if known, in one pass, with the bits of advance() and dot_of().
template <int64_t kStates>
float advance_and_read(const ScanHeads& s, const float* a, float dt, float input, const float* b,
                       const float* c, float* h) {
  if constexpr (kStates == 0) {
    advance(s, a, dt, input, b, h, h);
    return dot_of(
        s.states, [&](int64_t n) { return h[n]; }, [&](int64_t n) { return c[n]; });
  } else {
    static_assert(kStates % kLanes == 0);
    constexpr int kQuads = kLanes / 4;
    Quad sums[kQuads];
    for (Quad& sum : sums) sum = quad_zero();
    const float shared = s.shared_a ? decay(dt * a[0]) : 0.0f;
    float keep[kLanes];
    for (int64_t n = 0; n < kStates; n += kLanes) {
      if (!s.shared_a)
        for (int j = 0; j < kLanes; ++j) keep[j] = decay(dt * a[n + j]);
      for (int q = 0; q < kQuads; ++q) {
        const int64_t at = n + 4 * q;
        const Quad before = quad_load(h + at), added = quad_scale(quad_load(b + at), input);
        const Quad now =
            s.shared_a ? quad_fma(added, before, shared) : quad_fma(added, before, quad_load(keep + 4 * q));
        quad_store(h + at, now);
        sums[q] = quad_fma(sums[q], now, quad_load(c + at));
      }
    }
    float lanes[kLanes];
    for (int q = 0; q < kQuads; ++q) quad_store(lanes + 4 * q, sums[q]);
    return fold(lanes);
  }
}

template <int64_t kStates>
void scan_states(const ScanHeads& s) {
  const int64_t states = kStates ? kStates : s.states, columns = s.shared_a ? 1 : states;
  for (int64_t head = 0; head < s.heads; ++head)
    for (int64_t t = 0; t < s.rows; ++t) {
      const float dt = s.dt[t * s.dt_stride + head], *b = s.b + t * s.b_stride, *c = s.c + t * s.b_stride;
      for (int64_t p = head * s.dim; p < (head + 1) * s.dim; ++p) {
        const float x = s.x[t * s.x_stride + p];
        const float sum =
            advance_and_read<kStates>(s, s.a + head * columns, dt, dt * x, b, c, s.h + p * states);
        s.y[t * s.x_stride + p] = madd(s.d[head], x, sum);
      }
    }
}

void scan(const ScanHeads& s) {
  switch (s.states) {
    case 16:
      return scan_states<16>(s);
    case 64:
      return scan_states<64>(s);
    case 128:
      return scan_states<128>(s);
    default:
      return scan_states<0>(s);
  }
}

void scan_backward(const ScanHeads& s, const ScanHeadBackward& g, float* scratch) {
  const int64_t states = s.states;
  float *all = scratch,
        *dh = scratch + (s.rows + 1) * states;  // all: the state before row 0, after row 0, ...
  for (int64_t p = 0; p < s.dim; ++p) {
    std::fill_n(all, states, 0.0f);
    std::fill_n(dh, states, 0.0f);
    for (int64_t t = 0; t < s.rows; ++t) {
      const float dt = s.dt[t * s.dt_stride];
      advance(s, s.a, dt, dt * s.x[t * s.x_stride + p], s.b + t * s.b_stride, all + t * states,
              all + (t + 1) * states);
    }
    for (int64_t t = s.rows; t-- > 0;) {
      const float dt = s.dt[t * s.dt_stride], x = s.x[t * s.x_stride + p], dy = g.dy[t * s.x_stride + p];
      const float *b = s.b + t * s.b_stride, *c = s.c + t * s.b_stride, *before = all + t * states,
                  *h = before + states;
      float *db = g.db + t * s.b_stride, *dc = g.dc + t * s.b_stride;
      const float keep = s.shared_a ? decay(dt * s.a[0]) : 0.0f;
      for (int64_t n = 0; n < states; ++n) {
        dc[n] = madd(dy, h[n], dc[n]);
        dh[n] = madd(dy, c[n], dh[n]);
      }
      const float through = dot_of(
          states, [&](int64_t n) { return dh[n]; }, [&](int64_t n) { return b[n]; });
      for (int64_t n = 0; n < states; ++n) db[n] = madd(dh[n], dt * x, db[n]);
      g.dx[t * s.x_stride + p] = madd(dt, through, dy * s.d[0]);
      float ddt = x * through;
      for (int64_t n = 0; n < states; ++n) {
        const float e = s.shared_a ? keep : decay(dt * s.a[n]), a = s.shared_a ? s.a[0] : s.a[n];
        const float kept = dh[n] * e, pull = kept * before[n];
        ddt = madd(pull, a, ddt);
        float& da = g.da[s.shared_a ? 0 : n];
        da = madd(pull, dt, da);
        dh[n] = kept;
      }
      g.ddt[t * s.dt_stride] += ddt;
      *g.dd = madd(dy, x, *g.dd);
    }
  }
}

}  // namespace

void fill_scan(Table& t) {
  t.conv_row = conv_row;
  t.scan = scan;
  t.scan_backward = scan_backward;
}

}  // namespace makar::kernels::MAKAR_ISA
