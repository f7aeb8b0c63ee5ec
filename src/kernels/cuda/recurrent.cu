// Short convolutions and selective scans: one thread per sequence and channel, in the order of the CPU's
// sums.
#include <vector>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {

using namespace kernels;
using cuda::each;
using cuda::exp_of;
using cuda::madd;

namespace {

__device__ float* state_of(const PagedState& s, const SequenceRows& q, int64_t row) {
  return reinterpret_cast<float*>(s.pages[q.first_page + row / kKeyTile] + s.offset);
}

// As dot_of in math.h, on one thread.
__device__ float dot(const float* a, const float* b, int64_t n) {
  float lanes[cuda::kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % cuda::kLanes] = madd(a[i], b[i], lanes[i % cuda::kLanes]);
  return cuda::fold(lanes);
}

}  // namespace

void CudaDevice::short_conv(const ShortConv& a) {
  constexpr int kMaxTaps = 64;
  check(a.taps <= kMaxTaps, "a convolution has at most 64 taps on this device");
  each(stream_, a.count * a.channels, [=] __device__(int64_t i) {
    const SequenceRows q = a.sequences[i / a.channels];
    const int64_t c = i % a.channels, before = a.taps - 1;
    if (q.q_rows == 0) return;
    float window[kMaxTaps] = {};  // the inputs of the next output
    if (a.state.pages && q.past > 0) {
      const float* state = state_of(a.state, q, q.past - 1);
      for (int64_t k = 0; k < before; ++k) window[k] = state[k * a.channels + c];
    }
    for (int64_t t = 0; t < q.q_rows; ++t) {
      window[before] = a.x[(q.q_start + t) * a.channels + c];
      float y = a.bias ? a.bias[c] : 0.0f;
      for (int64_t k = 0; k < a.taps; ++k) y = madd(a.w[c * a.taps + k], window[k], y);
      a.y[(q.q_start + t) * a.channels + c] = y;
      for (int64_t k = 0; k < before; ++k) window[k] = window[k + 1];
      const int64_t row = q.past + t;
      if (!a.state.pages || (t + 1 < q.q_rows && (row + 1) % kKeyTile != 0)) continue;
      float* state = state_of(a.state, q, row);
      for (int64_t k = 0; k < before; ++k) state[k * a.channels + c] = window[k];
    }
  });
}

void CudaDevice::short_conv_backward(const ShortConvBackward& a) {
  each(stream_, a.channels, [=] __device__(int64_t c) {
    for (int64_t k = 0; k < a.taps; ++k) a.dw[c * a.taps + k] = 0;
    float bias = 0;
    for (int64_t s = 0; s < a.count; ++s) {
      const SequenceRows q = a.sequences[s];
      for (int64_t t = 0; t < q.q_rows; ++t) {
        const float dy = a.dy[(q.q_start + t) * a.channels + c];
        bias += dy;
        float dx = 0;
        for (int64_t k = 0; k < a.taps; ++k) {
          const int64_t from = t - a.taps + 1 + k, to = t + a.taps - 1 - k;
          if (from >= 0) a.dw[c * a.taps + k] += dy * a.x[(q.q_start + from) * a.channels + c];
          if (to < q.q_rows) dx += a.w[c * a.taps + k] * a.dy[(q.q_start + to) * a.channels + c];
        }
        a.dx[(q.q_start + t) * a.channels + c] = dx;
      }
    }
    if (a.dbias) a.dbias[c] = bias;
  });
}

void CudaDevice::selective_scan(const SelectiveScan& a) {
  const int64_t width = a.heads * a.dim, shared = a.groups * a.states;
  const CudaScratch<float> scratch(memory_, a.count * width * a.states);
  float* states = scratch.data();
  each(stream_, a.count * width, [=] __device__(int64_t i) {
    const SequenceRows q = a.sequences[i / width];
    const int64_t channel = i % width, head = channel / a.dim, group = head * a.groups / a.heads;
    if (q.q_rows == 0) return;
    float* h = states + i * a.states;
    const float* from =
        a.state.pages && q.past > 0 ? state_of(a.state, q, q.past - 1) + channel * a.states : nullptr;
    for (int64_t n = 0; n < a.states; ++n) h[n] = from ? from[n] : 0.0f;
    const float* rates = a.a + head * a.a_columns;
    for (int64_t t = 0; t < q.q_rows; ++t) {
      const int64_t row = q.q_start + t;
      const float dt = a.dt[row * a.heads + head], x = a.x[row * width + channel], input = dt * x;
      const float *b = a.b + row * shared + group * a.states, *c = a.c + row * shared + group * a.states;
      const float keep = a.a_columns == 1 ? exp_of(dt * rates[0]) : 0.0f;
      for (int64_t n = 0; n < a.states; ++n)
        h[n] = madd(a.a_columns == 1 ? keep : exp_of(dt * rates[n]), h[n], input * b[n]);
      a.y[row * width + channel] = madd(a.d ? a.d[head] : 0.0f, x, dot(h, c, a.states));
      const int64_t at = q.past + t;
      if (!a.state.pages || (t + 1 < q.q_rows && (at + 1) % kKeyTile != 0)) continue;
      float* to = state_of(a.state, q, at) + channel * a.states;
      for (int64_t n = 0; n < a.states; ++n) to[n] = h[n];
    }
  });
}

// One thread per sequence and group: the heads of a group add to the same rows of db and dc, in order.
void CudaDevice::selective_scan_backward(const SelectiveScanBackward& g) {
  const SelectiveScan a = g.forward;
  const int64_t width = a.heads * a.dim, shared = a.groups * a.states, columns = a.a_columns;
  std::vector<SequenceRows> rows(static_cast<size_t>(a.count));
  cuda_check(cudaMemcpyAsync(rows.data(), a.sequences, rows.size() * sizeof(SequenceRows),
                             cudaMemcpyDeviceToHost, stream_),
             "sequences");
  cuda_check(cudaStreamSynchronize(stream_), "sequences");
  int64_t max = 0;
  for (const SequenceRows& q : rows) max = std::max(max, q.q_rows);
  const int64_t history_size = (max + 2) * a.states;
  const CudaScratch<float> histories(memory_, a.count * a.groups * history_size);
  float* scratch = histories.data();
  each(stream_, a.count * a.groups, [=] __device__(int64_t i) {
    const int64_t s = i / a.groups, group = i % a.groups, states = a.states;
    const SequenceRows q = a.sequences[s];
    float *history = scratch + i * history_size, *dh = history + (q.q_rows + 1) * states;
    for (int64_t t = q.q_start; t < q.q_start + q.q_rows; ++t)
      for (int64_t n = 0; n < states; ++n)
        g.db[t * shared + group * states + n] = g.dc[t * shared + group * states + n] = 0;
    for (int64_t head = group * a.heads / a.groups; head < (group + 1) * a.heads / a.groups; ++head) {
      const float* rates = a.a + head * columns;
      float *da = g.da_log + (s * a.heads + head) * columns, *dd = g.dd + s * a.heads + head;
      for (int64_t t = q.q_start; t < q.q_start + q.q_rows; ++t) g.ddt[t * a.heads + head] = 0;
      for (int64_t n = 0; n < columns; ++n) da[n] = 0;
      *dd = 0;
      for (int64_t p = 0; p < a.dim; ++p) {
        const int64_t channel = head * a.dim + p;
        for (int64_t n = 0; n < states; ++n) history[n] = dh[n] = 0;
        for (int64_t t = 0; t < q.q_rows; ++t) {
          const int64_t row = q.q_start + t;
          const float dt = a.dt[row * a.heads + head], input = dt * a.x[row * width + channel];
          const float* b = a.b + row * shared + group * states;
          for (int64_t n = 0; n < states; ++n)
            history[(t + 1) * states + n] =
                madd(exp_of(dt * rates[columns == 1 ? 0 : n]), history[t * states + n], input * b[n]);
        }
        for (int64_t t = q.q_rows; t-- > 0;) {
          const int64_t row = q.q_start + t;
          const float dt = a.dt[row * a.heads + head], x = a.x[row * width + channel],
                      dy = g.dy[row * width + channel];
          const float *b = a.b + row * shared + group * states, *c = a.c + row * shared + group * states,
                      *before = history + t * states, *h = before + states;
          float *db = g.db + row * shared + group * states, *dc = g.dc + row * shared + group * states;
          for (int64_t n = 0; n < states; ++n) {
            dc[n] = madd(dy, h[n], dc[n]);
            dh[n] = madd(dy, c[n], dh[n]);
          }
          const float d_input = dot(dh, b, states);
          for (int64_t n = 0; n < states; ++n) db[n] = madd(dh[n], dt * x, db[n]);
          g.dx[row * width + channel] = madd(dt, d_input, dy * (a.d ? a.d[head] : 0.0f));
          float ddt = x * d_input;
          for (int64_t n = 0; n < states; ++n) {
            const float rate = rates[columns == 1 ? 0 : n], decayed = dh[n] * exp_of(dt * rate),
                        d_exponent = decayed * before[n];
            ddt = madd(d_exponent, rate, ddt);
            da[columns == 1 ? 0 : n] = madd(d_exponent, dt, da[columns == 1 ? 0 : n]);
            dh[n] = decayed;
          }
          g.ddt[row * a.heads + head] += ddt;
          *dd = madd(dy, x, *dd);
        }
      }
      for (int64_t n = 0; n < columns; ++n) da[n] *= rates[n];
    }
  });
}

}  // namespace makar
