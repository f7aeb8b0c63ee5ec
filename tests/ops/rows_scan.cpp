// Rows of the op table: the ops of recurrent layers, against their recurrences in double precision.
#include <cmath>

#include "ops/op_table.h"
#include "ops/scan.h"

namespace makar::test {
namespace {

using ops::SequenceRows;

void add_conv(std::vector<OpRow>& rows, const std::string& name, const std::vector<int64_t>& lengths,
              int64_t channels, int64_t taps, bool bias) {
  const auto sequences = ragged(lengths);
  const int64_t tokens = sequences.back().q_start + sequences.back().q_rows;
  OpRow row{"short_conv_" + name, {{{tokens, channels}}, {{channels, 1, taps}}}, {}, {}};
  if (bias) row.inputs.push_back({{channels}});
  row.run = [=](Context& ctx, const Tensors& in) {
    return Tensors{
        ops::short_conv(ctx, in[0], in[1], bias ? in[2] : Tensor(), ops::attention_batch(ctx, sequences), 0)};
  };
  row.reference = [=](const Arrays& in) {
    Array y(in[0].shape);
    for (const auto& s : sequences)
      for (int64_t t = 0; t < s.q_rows; ++t)
        for (int64_t c = 0; c < channels; ++c) {
          double sum = bias ? in[2][c] : 0;
          for (int64_t lag = 0; lag < taps && lag <= t; ++lag)
            sum += in[1][c * taps + taps - 1 - lag] * in[0][(s.q_start + t - lag) * channels + c];
          y[(s.q_start + t) * channels + c] = sum;
        }
    return Arrays{y};
  };
  rows.push_back(row);
}

struct Scan {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t heads, dim, groups, states;
  bool shared;  // one rate per head
};

Array reference_scan(const Scan& c, const std::vector<SequenceRows>& sequences, const Arrays& in) {
  const Array &x = in[0], &dt = in[1], &a_log = in[2], &b = in[3], &cc = in[4], &d = in[5];
  const int64_t width = c.heads * c.dim, shared = c.groups * c.states;
  Array y(x.shape);
  for (const auto& s : sequences)
    for (int64_t i = 0; i < width; ++i) {
      const int64_t head = i / c.dim, group = head / (c.heads / c.groups);
      std::vector<double> h(static_cast<size_t>(c.states), 0.0);
      for (int64_t t = s.q_start; t < s.q_start + s.q_rows; ++t) {
        double sum = d[head] * x[t * width + i];
        for (int64_t n = 0; n < c.states; ++n) {
          const double rate = -std::exp(a_log[c.shared ? head : head * c.states + n]),
                       step = dt[t * c.heads + head];
          double& state = h[static_cast<size_t>(n)];
          state =
              std::exp(step * rate) * state + step * b[t * shared + group * c.states + n] * x[t * width + i];
          sum += state * cc[t * shared + group * c.states + n];
        }
        y[t * width + i] = sum;
      }
    }
  return y;
}

void add_scan(std::vector<OpRow>& rows, const Scan& c) {
  const auto sequences = ragged(c.lengths);
  const int64_t tokens = sequences.back().q_start + sequences.back().q_rows;
  const Shape rates = c.shared ? Shape{c.heads} : Shape{c.heads, c.states};
  OpRow row{"selective_scan_" + c.name,
            {{{tokens, c.heads * c.dim}},
             {{tokens, c.heads}, 0.3, 0.0, true, DType::kF32, true},
             {rates, 0.5},
             {{tokens, c.groups * c.states}},
             {{tokens, c.groups * c.states}},
             {{c.heads}}},
            {},
            {}};
  row.run = [=](Context& ctx, const Tensors& in) {
    return Tensors{ops::selective_scan(ctx, {in[0], in[1], in[2], {}, in[3], in[4], in[5]}, c.groups,
                                       ops::attention_batch(ctx, sequences), 0)};
  };
  row.reference = [=](const Arrays& in) { return Arrays{reference_scan(c, sequences, in)}; };
  row.gradient_limit = 2e-5;
  rows.push_back(row);
}

}  // namespace

void add_scan_rows(std::vector<OpRow>& rows) {
  add_conv(rows, "plain", {5, 1, 9}, 6, 4, false);
  add_conv(rows, "bias", {3, 40}, 17, 3, true);
  add_conv(rows, "one_tap", {4}, 5, 1, true);
  add_scan(rows, {"mamba", {5, 1, 9}, 6, 1, 1, 4, false});
  add_scan(rows, {"mamba_long", {120}, 3, 1, 1, 17, false});
  add_scan(rows, {"mamba_16", {3, 70}, 40, 1, 1, 16, false});
  add_scan(rows, {"heads", {7, 30}, 4, 3, 2, 5, true});
  add_scan(rows, {"heads_64", {2, 5}, 4, 3, 2, 64, true});
  add_scan(rows, {"heads_128", {3}, 2, 2, 1, 128, true});
  OpRow softplus{"softplus", {{{3, 50}, 8.0}}, {}, {}};
  softplus.run = [](Context& ctx, const Tensors& in) { return Tensors{ops::softplus(ctx, in[0])}; };
  softplus.reference = [](const Arrays& in) {
    Array y(in[0].shape);
    for (int64_t i = 0; i < y.count(); ++i) y[i] = std::log1p(std::exp(in[0][i]));
    return Arrays{y};
  };
  rows.push_back(softplus);
}

}  // namespace makar::test
