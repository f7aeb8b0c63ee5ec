// Short convolutions and selective scans: division into tasks, and states in cache pages.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

namespace {

constexpr int64_t kPageRows = kKeyTile;

float* state_of(const PagedState& s, const SequenceRows& q, int64_t row) {
  return reinterpret_cast<float*>(s.pages[q.first_page + row / kPageRows] + s.offset);
}

// The input rows of a convolution: the rows of x, and before them the state, or zeros without a state.
class ConvRows {
 public:
  ConvRows(const ShortConv& a, const SequenceRows& q, const float* zeros) : a_(a), q_(q), zeros_(zeros) {
    if (!a.state.pages || q.past == 0) return;
    const float* state = state_of(a.state, q, q.past - 1);
    state_.assign(state, state + (a.taps - 1) * a.channels);
  }
  // `row` counts from the first row of this pass; negative rows are before it.
  const float* operator()(int64_t row) const {
    if (row >= 0) return a_.x + (q_.q_start + row) * a_.channels;
    return state_.empty() ? zeros_ : state_.data() + (a_.taps - 1 + row) * a_.channels;
  }

 private:
  const ShortConv& a_;
  const SequenceRows& q_;
  const float* zeros_;
  std::vector<float> state_;
};

std::vector<float> transposed(const float* w, int64_t channels, int64_t taps) {
  std::vector<float> out(static_cast<size_t>(channels * taps));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < taps; ++k) out[static_cast<size_t>(k * channels + c)] = w[c * taps + k];
  return out;
}

// One row of a sequence in decoding: the state is shifted in place.
void conv_token(const ShortConv& a, const SequenceRows& q, const float* zeros) {
  const int64_t n = a.channels, state_rows = a.taps - 1;
  const float* x = a.x + q.q_start * n;
  const float* before = state_rows > 0 && q.past > 0 ? state_of(a.state, q, q.past - 1) : nullptr;
  std::vector<const float*> rows(static_cast<size_t>(a.taps), zeros);
  for (int64_t k = 0; before && k < state_rows; ++k) rows[static_cast<size_t>(k)] = before + k * n;
  rows.back() = x;
  cpu().conv_step(rows.data(), a.taps, a.w, a.bias, a.y + q.q_start * n, n);
  if (state_rows == 0) return;
  float* after = state_of(a.state, q, q.past);
  if (before)
    std::memmove(after, before + n, static_cast<size_t>((state_rows - 1) * n) * sizeof(float));
  else
    std::fill_n(after, (state_rows - 1) * n, 0.0f);
  std::copy_n(x, n, after + (state_rows - 1) * n);
}

}  // namespace

void CpuDevice::short_conv(const ShortConv& a) {
  const std::vector<float> zeros(static_cast<size_t>(a.channels), 0.0f);
  std::vector<float> w;
  for (int64_t s = 0; s < a.count; ++s) {
    const SequenceRows& q = a.sequences[s];
    if (q.q_rows == 0) continue;
    if (q.q_rows == 1 && a.state.pages) {
      conv_token(a, q, zeros.data());
      continue;
    }
    if (w.empty()) w = transposed(a.w, a.channels, a.taps);
    const ConvRows row(a, q, zeros.data());
    each_rows(*pool_, q.q_rows, a.channels * a.taps, [&](int64_t t0, int64_t t1) {
      std::vector<const float*> rows(static_cast<size_t>(a.taps));
      for (int64_t t = t0; t < t1; ++t) {
        for (int64_t k = 0; k < a.taps; ++k) rows[static_cast<size_t>(k)] = row(t - a.taps + 1 + k);
        cpu().conv_row(rows.data(), a.taps, w.data(), a.bias, a.y + (q.q_start + t) * a.channels, a.channels);
      }
    });
    if (!a.state.pages) continue;
    for (int64_t end = 0; end < q.q_rows;) {
      const int64_t at = q.past + end;  // the first row of the page that this pass computed
      end = std::min(q.q_rows, end + kPageRows - at % kPageRows);
      float* state = state_of(a.state, q, at);
      for (int64_t k = 0; k + 1 < a.taps; ++k)
        std::memcpy(state + k * a.channels, row(end - a.taps + 1 + k), static_cast<size_t>(a.channels) * 4);
    }
  }
}

void CpuDevice::short_conv_backward(const ShortConvBackward& a) {
  constexpr int64_t kTapCost = 64;  // rough cost of one tap of a channel, in elementwise operations
  // Channels are independent; the rows of a channel are summed in order.
  each_rows(*pool_, a.channels, a.taps * kTapCost, [&](int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c) {
      std::fill_n(a.dw + c * a.taps, a.taps, 0.0f);
      float bias = 0;
      for (int64_t s = 0; s < a.count; ++s) {
        const SequenceRows& q = a.sequences[s];
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
    }
  });
}

namespace {

// `heads` consecutive heads of a group, over the rows of a sequence from `row` on.
ScanHeads heads_of(const SelectiveScan& a, const SequenceRows& q, int64_t head, int64_t heads, int64_t row) {
  const int64_t width = a.heads * a.dim, shared = a.groups * a.states, group = head * a.groups / a.heads,
                first = q.q_start + row;
  ScanHeads h{};
  h.x = a.x + first * width + head * a.dim;
  h.dt = a.dt + first * a.heads + head;
  h.a = a.a + head * a.a_columns;
  h.b = a.b + first * shared + group * a.states;
  h.c = a.c + first * shared + group * a.states;
  h.d = a.d + head;
  h.y = a.y ? a.y + first * width + head * a.dim : nullptr;
  h.heads = heads, h.rows = q.q_rows - row, h.dim = a.dim, h.states = a.states;
  h.x_stride = width, h.dt_stride = a.heads, h.b_stride = shared;
  h.shared_a = a.a_columns == 1;
  return h;
}

// Scans the rows of a sequence. States are updated in place, in the pages if there are any.
void scan_sequence(const SelectiveScan& a, const SequenceRows& q, int64_t head, int64_t heads, float* state) {
  const int64_t size = a.dim * a.states, floats = heads * size;
  const auto in_page = [&](int64_t row) { return state_of(a.state, q, row) + head * size; };
  for (int64_t row = 0; row < q.q_rows;) {
    ScanHeads h = heads_of(a, q, head, heads, row);
    const int64_t at = q.past + row;
    h.h = a.state.pages ? in_page(at) : state;
    if (row == 0 && (q.past == 0 || !a.state.pages))
      std::fill_n(h.h, floats, 0.0f);
    else if (a.state.pages && at % kPageRows == 0)
      std::copy_n(in_page(at - 1), floats, h.h);
    if (a.state.pages) h.rows = std::min(h.rows, kPageRows - at % kPageRows);
    cpu().scan(h);
    row += h.rows;
  }
}

}  // namespace

void CpuDevice::selective_scan(const SelectiveScan& a) {
  const int64_t size = a.dim * a.states, per_group = a.heads / a.groups;
  int64_t rows = 0;
  for (int64_t s = 0; s < a.count; ++s) rows = std::max(rows, a.sequences[s].q_rows);
  each_rows(*pool_, a.count * a.heads, rows * size * 4, [&](int64_t i0, int64_t i1) {
    std::vector<float> state(a.state.pages ? 0 : static_cast<size_t>(per_group * size));
    for (int64_t i = i0; i < i1;) {
      const int64_t head = i % a.heads, heads = std::min(i1 - i, per_group - head % per_group);
      scan_sequence(a, a.sequences[i / a.heads], head, heads, state.data());
      i += heads;
    }
  });
}

void CpuDevice::selective_scan_backward(const SelectiveScanBackward& g) {
  const SelectiveScan& a = g.forward;
  const int64_t width = a.heads * a.dim, shared = a.groups * a.states, columns = a.heads * a.a_columns;
  // The heads of a group add to the same rows of db and dc, in order.
  pool_->for_ranges(a.count * a.groups, 1, [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t s = i / a.groups, group = i % a.groups;
      const SequenceRows& q = a.sequences[s];
      const Scratch scratch = Scratch::of_floats((q.q_rows + 2) * a.states);
      for (int64_t t = q.q_start; t < q.q_start + q.q_rows; ++t) {
        std::fill_n(g.db + t * shared + group * a.states, a.states, 0.0f);
        std::fill_n(g.dc + t * shared + group * a.states, a.states, 0.0f);
      }
      for (int64_t head = group * a.heads / a.groups; head < (group + 1) * a.heads / a.groups; ++head) {
        for (int64_t t = q.q_start; t < q.q_start + q.q_rows; ++t) g.ddt[t * a.heads + head] = 0;
        float *da = g.da_log + s * columns + head * a.a_columns, *dd = g.dd + s * a.heads + head;
        std::fill_n(da, a.a_columns, 0.0f);
        *dd = 0;
        const int64_t x = q.q_start * width + head * a.dim, b = q.q_start * shared + group * a.states;
        cpu().scan_backward(
            heads_of(a, q, head, 1, 0),
            {g.dy + x, g.dx + x, g.ddt + q.q_start * a.heads + head, g.db + b, g.dc + b, da, dd},
            scratch.floats());
        for (int64_t n = 0; n < a.a_columns; ++n) da[n] *= a.a[head * a.a_columns + n];
      }
    }
  });
}

}  // namespace makar
