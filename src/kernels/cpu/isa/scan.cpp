// Recurrent layers: short convolutions and selective scans.
#include <algorithm>

#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/quad_exp.h"
#include "kernels/cpu/isa/sections.h"

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

// conv_row with the taps of a channel stored together, as in weight files.
template <int64_t kTaps>
void conv_channels(const float* const* rows, const float* w, const float* bias, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = bias ? bias[i] : 0.0f;
    for (int64_t k = 0; k < kTaps; ++k) sum = madd(w[i * kTaps + k], rows[k][i], sum);
    y[i] = sum;
  }
}

void conv_step(const float* const* rows, int64_t taps, const float* w, const float* bias, float* y,
               int64_t n) {
  switch (taps) {
    case 2:
      return conv_channels<2>(rows, w, bias, y, n);
    case 3:
      return conv_channels<3>(rows, w, bias, y, n);
    case 4:
      return conv_channels<4>(rows, w, bias, y, n);
    default:
      for (int64_t i = 0; i < n; ++i) {
        float sum = bias ? bias[i] : 0.0f;
        for (int64_t k = 0; k < taps; ++k) sum = madd(w[i * taps + k], rows[k][i], sum);
        y[i] = sum;
      }
  }
}

// The factor e^(dt a) of a state; the exponent is not positive.
float decay(float x) { return exp_down(x); }

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

// Advances the states of one channel and returns their product with c. kStates: the number of states if it is
// known at compile time, else 0. If it is known, one pass does both, with the bits of advance() and dot_of().
template <int64_t kStates, bool kShared>
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
    [[maybe_unused]] const float shared = kShared ? decay(dt * a[0]) : 0.0f;
    for (int64_t n = 0; n < kStates; n += kLanes) {
      Quad keep[kQuads];
      for (int q = 0; q < kQuads; ++q)
        keep[q] = kShared ? quad_of(shared) : quad_scale(quad_load(a + n + 4 * q), dt);
      if constexpr (!kShared) quads_exp_down(keep);
      for (int q = 0; q < kQuads; ++q) {
        const int64_t at = n + 4 * q;
        const Quad state = quad_fma(quad_scale(quad_load(b + at), input), quad_load(h + at), keep[q]);
        quad_store(h + at, state);
        sums[q] = quad_fma(sums[q], state, quad_load(c + at));
      }
    }
    return quad_fold(sums);
  }
}

// The hardware prefetcher is too late for the states and their rates, which are read from memory per token.
void prefetch(const float* from, int64_t floats, bool write) {
  for (int64_t i = 0; i < floats; i += 16)
    write ? __builtin_prefetch(from + i, 1) : __builtin_prefetch(from + i, 0);
}

template <int64_t kStates, bool kShared>
void scan_states(const ScanHeads& s) {
  const int64_t states = kStates ? kStates : s.states, columns = s.shared_a ? 1 : states;
  constexpr int64_t kPrefetchFloats = 512;  // prefetch distance
  for (int64_t head = 0; head < s.heads; ++head)
    for (int64_t t = 0; t < s.rows; ++t) {
      const float dt = s.dt[t * s.dt_stride + head], *b = s.b + t * s.b_stride, *c = s.c + t * s.b_stride;
      const float* a = s.a + head * columns;
      for (int64_t p = head * s.dim; p < (head + 1) * s.dim; ++p) {
        const float x = s.x[t * s.x_stride + p];
        if (s.rows == 1) {
          prefetch(s.h + p * states + kPrefetchFloats, states, true);
          if (columns > 1) prefetch(a + kPrefetchFloats, columns, false);
        }
        const float sum = advance_and_read<kStates, kShared>(s, a, dt, dt * x, b, c, s.h + p * states);
        s.y[t * s.x_stride + p] = madd(s.d[head], x, sum);
      }
    }
}

// The factors e^(dt a) of several channels with 16 states each.
template <int kChannels>
void decays(const float* a, const float* dt, float* keep) {
  constexpr int kQuads = kLanes / 4;
  Quad quads[kChannels * kQuads];
  for (int q = 0; q < kChannels * kQuads; ++q) quads[q] = quad_scale(quad_load(a + 4 * q), dt[q / kQuads]);
  quads_exp_down(quads);
  for (int q = 0; q < kChannels * kQuads; ++q) quad_store(keep + 4 * q, quads[q]);
}

// One token, for heads with one channel of 16 states, each with its own rate (Mamba). The factors of several
// channels are computed first, so that the steps do not wait for them. `s` is passed by value: with a
// reference, the compiler would have to assume that stores to the states change it.
void scan_token(const ScanHeads s) {
  constexpr int64_t kChannels = 16, kPair = 2, kQuads = kLanes / 4;
  float keep[kChannels * kLanes];
  Quad b[kQuads], c[kQuads];
  for (int64_t q = 0; q < kQuads; ++q) b[q] = quad_load(s.b + 4 * q), c[q] = quad_load(s.c + 4 * q);
  for (int64_t first = 0; first < s.heads; first += kChannels) {
    const int64_t end = std::min(s.heads, first + kChannels);
    int64_t i = first;
    for (; i + kPair <= end; i += kPair)
      decays<kPair>(s.a + i * kLanes, s.dt + i, keep + (i - first) * kLanes);
    for (; i < end; ++i) decays<1>(s.a + i * kLanes, s.dt + i, keep + (i - first) * kLanes);
    const float* k = keep;
    for (i = first; i < end; ++i, k += kLanes) {
      float* h = s.h + i * kLanes;
      const float x = s.x[i], input = s.dt[i] * x;
      Quad sums[kQuads];
      for (int64_t q = 0; q < kQuads; ++q) {
        const Quad state = quad_fma(quad_scale(b[q], input), quad_load(h + 4 * q), quad_load(k + 4 * q));
        quad_store(h + 4 * q, state);
        sums[q] = quad_fma(quad_zero(), state, c[q]);
      }
      s.y[i] = madd(s.d[i], x, quad_fold(sums));
    }
  }
}

template <int64_t kStates>
void scan_kind(const ScanHeads& s) {
  s.shared_a ? scan_states<kStates, true>(s) : scan_states<kStates, false>(s);
}

void scan(const ScanHeads& s) {
  switch (s.states) {
    case 16:
      return s.rows == 1 && s.dim == 1 && !s.shared_a ? scan_token(s) : scan_kind<16>(s);
    case 64:
      return scan_kind<64>(s);
    case 128:
      return scan_kind<128>(s);
    default:
      return scan_kind<0>(s);
  }
}

void scan_backward(const ScanHeads& s, const ScanHeadBackward& g, float* scratch) {
  const int64_t states = s.states;
  float *history = scratch,
        *dh = scratch + (s.rows + 1) * states;  // history: the state before row 0, after row 0, ...
  for (int64_t p = 0; p < s.dim; ++p) {
    std::fill_n(history, states, 0.0f);
    std::fill_n(dh, states, 0.0f);
    for (int64_t t = 0; t < s.rows; ++t) {
      const float dt = s.dt[t * s.dt_stride];
      advance(s, s.a, dt, dt * s.x[t * s.x_stride + p], s.b + t * s.b_stride, history + t * states,
              history + (t + 1) * states);
    }
    for (int64_t t = s.rows; t-- > 0;) {
      const float dt = s.dt[t * s.dt_stride], x = s.x[t * s.x_stride + p], dy = g.dy[t * s.x_stride + p];
      const float *b = s.b + t * s.b_stride, *c = s.c + t * s.b_stride, *before = history + t * states,
                  *h = before + states;
      float *db = g.db + t * s.b_stride, *dc = g.dc + t * s.b_stride;
      const float keep = s.shared_a ? decay(dt * s.a[0]) : 0.0f;
      for (int64_t n = 0; n < states; ++n) {
        dc[n] = madd(dy, h[n], dc[n]);
        dh[n] = madd(dy, c[n], dh[n]);
      }
      const float d_input = dot_of(
          states, [&](int64_t n) { return dh[n]; }, [&](int64_t n) { return b[n]; });
      for (int64_t n = 0; n < states; ++n) db[n] = madd(dh[n], dt * x, db[n]);
      g.dx[t * s.x_stride + p] = madd(dt, d_input, dy * s.d[0]);
      float ddt = x * d_input;
      for (int64_t n = 0; n < states; ++n) {
        const float e = s.shared_a ? keep : decay(dt * s.a[n]), a = s.shared_a ? s.a[0] : s.a[n];
        const float decayed = dh[n] * e, d_exponent = decayed * before[n];
        ddt = madd(d_exponent, a, ddt);
        float& da = g.da[s.shared_a ? 0 : n];
        da = madd(d_exponent, dt, da);
        dh[n] = decayed;
      }
      g.ddt[t * s.dt_stride] += ddt;
      *g.dd = madd(dy, x, *g.dd);
    }
  }
}

}  // namespace

void fill_scan(Table& t) {
  t.conv_row = conv_row;
  t.conv_step = conv_step;
  t.scan = scan;
  t.scan_backward = scan_backward;
}

}  // namespace makar::kernels::MAKAR_ISA
