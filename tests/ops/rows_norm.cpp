// Rows of the op table: normalisations, softmax, rotary positions.
#include <cmath>

#include "ops/norm.h"
#include "ops/op_table.h"
#include "ops/rope.h"
#include "ops/softmax.h"

namespace makar::test {
namespace {

Array layer_norm(const Array& x, const Array* w, const Array* b, double eps) {
  const int64_t n = x.dim(-1);
  Array y(x.shape);
  for (int64_t r = 0; r < x.count(); r += n) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[r + i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += (x[r + i] - mean) * (x[r + i] - mean) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      y[r + i] = (x[r + i] - mean) / std::sqrt(var + eps) * (w ? (*w)[i] : 1.0) + (b ? (*b)[i] : 0.0);
  }
  return y;
}

Array rms_norm(const Array& x, const Array& w, double eps, double offset) {
  const int64_t n = x.dim(-1);
  Array y(x.shape);
  for (int64_t r = 0; r < x.count(); r += n) {
    double square = 0;
    for (int64_t i = 0; i < n; ++i) square += x[r + i] * x[r + i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) y[r + i] = x[r + i] / std::sqrt(square + eps) * (w[i] + offset);
  }
  return y;
}

void add_layer_norm(std::vector<OpRow>& rows, const std::string& name, const Shape& x, bool w, bool b,
                    double centre) {
  OpRow row{name, {{x, 2.0, centre}}, {}, {}};
  if (w) row.inputs.push_back({{x[-1]}});
  if (b) row.inputs.push_back({{x[-1]}});
  const size_t bias = w ? 2 : 1;
  row.run = [=](Context& ctx, const Tensors& in) {
    return Tensors{ops::layer_norm(ctx, in[0], w ? in[1] : Tensor(), b ? in[bias] : Tensor(), 1e-5f)};
  };
  row.reference = [=](const Arrays& in) {
    return Arrays{layer_norm(in[0], w ? &in[1] : nullptr, b ? &in[bias] : nullptr, 1e-5f)};
  };
  rows.push_back(row);
}

void add_rms_norm(std::vector<OpRow>& rows, const std::string& name, const Shape& x, float offset) {
  rows.push_back({name,
                  {{x, 2.0}, {{x[-1]}}},
                  [=](Context& ctx, const Tensors& in) {
                    return Tensors{ops::rms_norm(ctx, in[0], in[1], 1e-6f, offset)};
                  },
                  [=](const Arrays& in) { return Arrays{rms_norm(in[0], in[1], 1e-6f, offset)}; }});
}

void add_batch_norm(std::vector<OpRow>& rows, const std::string& name, const Shape& x, bool training) {
  OpRow row{name, {{x, 2.0, 1.0}, {{x[-1]}}, {{x[-1]}}}, {}, {}, training};
  row.run = [=](Context& ctx, const Tensors& in) {
    Memory& memory = ctx.device.memory();
    ops::BatchNormState state{Tensor::full({x[-1]}, 0.3f).to(memory), Tensor::full({x[-1]}, 1.7f).to(memory),
                              0.1f};
    return Tensors{ops::batch_norm(ctx, in[0], in[1], in[2], 1e-5f, state)};
  };
  row.reference = [=](const Arrays& in) {
    const int64_t n = x[-1], count = in[0].count() / n;
    Array y(x);
    for (int64_t j = 0; j < n; ++j) {
      double m = 0, v = 0;
      for (int64_t i = 0; i < count; ++i) m += in[0][i * n + j] / static_cast<double>(count);
      for (int64_t i = 0; i < count; ++i)
        v += (in[0][i * n + j] - m) * (in[0][i * n + j] - m) / static_cast<double>(count);
      const double used_m = training ? m : 0.3f, used_v = training ? v : 1.7f;
      for (int64_t i = 0; i < count; ++i)
        y[i * n + j] = (in[0][i * n + j] - used_m) / std::sqrt(used_v + 1e-5f) * in[1][j] + in[2][j];
    }
    return Arrays{y};
  };
  rows.push_back(row);
}

Array softmax(const Array& x, bool log) {
  const int64_t n = x.dim(-1);
  Array y(x.shape);
  for (int64_t r = 0; r < x.count(); r += n) {
    double top = x[r], sum = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, x[r + i]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[r + i] - top);
    for (int64_t i = 0; i < n; ++i)
      y[r + i] = log ? x[r + i] - top - std::log(sum) : std::exp(x[r + i] - top) / sum;
  }
  return y;
}

void add_rope(std::vector<OpRow>& rows, const std::string& name, int64_t tokens, int64_t heads, int64_t dim,
              ops::RopeOptions options) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < tokens; ++i) positions.push_back(i * 7 % 53);
  OpRow row{name, {{{tokens, heads * dim}}}, {}, {}};
  row.run = [=](Context& ctx, const Tensors& in) {
    const auto table = ops::rope_table(ctx, positions, ops::rope_frequencies(options, 53));
    return Tensors{ops::rope(ctx, in[0], heads, options, table)};
  };
  // Pairs are complex numbers rotated by position * theta^(-2i / rotary).
  row.reference = [=](const Arrays& in) {
    Array y = in[0];
    const int64_t half = options.rotary / 2;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < half; ++i) {
          const int64_t base = (t * heads + h) * dim;
          const int64_t a = base + (options.interleaved ? 2 * i : i),
                        b = base + (options.interleaved ? 2 * i + 1 : i + half);
          const double angle =
              static_cast<double>(positions[static_cast<size_t>(t)]) / options.factor *
              std::pow(options.theta, -2.0 * static_cast<double>(i) / static_cast<double>(options.rotary));
          y[a] = in[0][a] * std::cos(angle) - in[0][b] * std::sin(angle);
          y[b] = in[0][b] * std::cos(angle) + in[0][a] * std::sin(angle);
        }
    return Arrays{y};
  };
  rows.push_back(row);
}

}  // namespace

void add_norm_rows(std::vector<OpRow>& rows) {
  add_layer_norm(rows, "layer_norm", {5, 24}, true, true, 0.0);
  add_layer_norm(rows, "layer_norm_no_bias", {5, 24}, true, false, 1.0);
  add_layer_norm(rows, "layer_norm_no_weight", {5, 23}, false, true, 1.0);
  add_layer_norm(rows, "layer_norm_bare", {2, 3, 17}, false, false, 0.0);
  add_layer_norm(rows, "layer_norm_large", {150, 130}, true, true, 0.5);
  add_rms_norm(rows, "rms_norm", {5, 24}, 0.0f);
  add_rms_norm(rows, "rms_norm_offset", {2, 3, 19}, 1.0f);
  add_rms_norm(rows, "rms_norm_large", {150, 130}, 0.0f);
  add_batch_norm(rows, "batch_norm_train", {21, 6}, true);
  add_batch_norm(rows, "batch_norm_eval", {3, 4, 6}, false);
  add_batch_norm(rows, "batch_norm_large", {300, 40}, true);
  for (const bool log : {false, true})
    for (const Shape& shape : {Shape{4, 3, 11}, Shape{1, 1}, Shape{7, 64}, Shape{120, 100}})
      rows.push_back({std::string(log ? "log_softmax_" : "softmax_") + std::to_string(shape[-1]),
                      {{shape, 3.0}},
                      [log](Context& ctx, const Tensors& in) {
                        return Tensors{log ? ops::log_softmax(ctx, in[0]) : ops::softmax(ctx, in[0])};
                      },
                      [log](const Arrays& in) { return Arrays{softmax(in[0], log)}; }});
  ops::RopeOptions o;
  o.rotary = 8;
  add_rope(rows, "rope", 6, 3, 8, o);
  add_rope(rows, "rope_large", 90, 12, 8, o);
  add_rope(rows, "rope_partial", 6, 2, 20, o);
  o.interleaved = true;
  add_rope(rows, "rope_interleaved", 6, 2, 8, o);
  add_rope(rows, "rope_interleaved_partial", 6, 2, 12, o);
  o.interleaved = false, o.scaling = ops::RopeScaling::kLinear, o.factor = 4.0;
  add_rope(rows, "rope_linear_scaling", 6, 2, 8, o);
}

}  // namespace makar::test
