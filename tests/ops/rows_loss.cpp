// Rows of the op table: losses.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/op_table.h"
#include "ops/softmax.h"

namespace makar::test {
namespace {

using ops::CrossEntropyOptions;
using ops::Reduction;

double cross_entropy(const Array& x, const std::vector<int64_t>& targets, const CrossEntropyOptions& o) {
  const int64_t n = x.dim(-1);
  double total = 0, counted = 0;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == ops::kIgnore) continue;
    const int64_t at = static_cast<int64_t>(r) * n;
    double top = x[at], sum = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, x[at + i]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[at + i] - top);
    const double lse = top + std::log(sum);
    for (int64_t i = 0; i < n; ++i) {
      const double p = (i == targets[r] ? 1.0 - o.smoothing : 0.0) + o.smoothing / static_cast<double>(n);
      total += p * (lse - x[at + i]);
    }
    ++counted;
  }
  return o.reduction == Reduction::kMean ? total / counted : total;
}

Array scalar(double value) {
  Array a{Shape{}};
  a[0] = value;
  return a;
}

std::vector<int64_t> targets_for(int64_t rows, int64_t classes) {
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < rows; ++i) targets.push_back(i % 5 == 2 ? ops::kIgnore : i * 7 % classes);
  return targets;
}

void add_cross_entropy(std::vector<OpRow>& rows, const std::string& name, int64_t n, int64_t classes,
                       CrossEntropyOptions o) {
  const auto targets = targets_for(n, classes);
  rows.push_back(
      {name,
       {{{n, classes}, 2.0}},
       [=](Context& ctx, const Tensors& in) { return Tensors{ops::cross_entropy(ctx, in[0], targets, o)}; },
       [=](const Arrays& in) { return Arrays{scalar(cross_entropy(in[0], targets, o))}; }});
}

void add_linear_cross_entropy(std::vector<OpRow>& rows, const std::string& name, int64_t n, int64_t width,
                              int64_t classes, bool bias, CrossEntropyOptions o) {
  const auto targets = targets_for(n, classes);
  OpRow row{name, {{{n, width}}, {{classes, width}}}, {}, {}};
  if (bias) row.inputs.push_back({{classes}});
  row.run = [=](Context& ctx, const Tensors& in) {
    return Tensors{ops::linear_cross_entropy(ctx, in[0], in[1], bias ? in[2] : Tensor(), targets, o)};
  };
  row.reference = [=](const Arrays& in) {
    Array logits({n, classes});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < classes; ++j) {
        double sum = bias ? in[2][j] : 0.0;
        for (int64_t k = 0; k < width; ++k) sum += in[0][i * width + k] * in[1][j * width + k];
        logits[i * classes + j] = o.soft_cap > 0 ? o.soft_cap * std::tanh(sum / o.soft_cap) : sum;
      }
    return Arrays{scalar(cross_entropy(logits, targets, o))};
  };
  rows.push_back(row);
}

}  // namespace

void add_loss_rows(std::vector<OpRow>& rows) {
  add_cross_entropy(rows, "cross_entropy", 6, 11, {});
  add_cross_entropy(rows, "cross_entropy_sum", 6, 11, {0.0f, Reduction::kSum});
  add_cross_entropy(rows, "cross_entropy_smooth", 8, 11, {0.1f, Reduction::kMean});
  add_cross_entropy(rows, "cross_entropy_smooth_sum", 8, 50, {0.3f, Reduction::kSum});
  add_cross_entropy(rows, "cross_entropy_large", 130, 90, {0.1f, Reduction::kMean});
  add_linear_cross_entropy(rows, "linear_cross_entropy", 7, 12, 30, false, {});
  add_linear_cross_entropy(rows, "linear_cross_entropy_bias", 7, 12, 30, true, {0.1f, Reduction::kSum});
  add_linear_cross_entropy(rows, "linear_cross_entropy_capped", 9, 12, 30, true,
                           {0.0f, Reduction::kMean, 3.0f});
  add_linear_cross_entropy(rows, "linear_cross_entropy_large", 130, 20, 90, true,
                           {0.1f, Reduction::kMean, 5.0f});

  rows.push_back({"mse",
                  {{{5, 7}}, {{5, 7}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::mse_loss(ctx, in[0], in[1])}; },
                  [](const Arrays& in) {
                    double sum = 0;
                    for (int64_t i = 0; i < 35; ++i) sum += (in[0][i] - in[1][i]) * (in[0][i] - in[1][i]);
                    return Arrays{scalar(sum / 35)};
                  }});
  rows.push_back({"bce",
                  {{{5, 7}, 3.0}, {{5, 7}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::bce_loss(ctx, in[0], in[1])}; },
                  [](const Arrays& in) {
                    double sum = 0;
                    for (int64_t i = 0; i < 35; ++i) {
                      const double p = 1.0 / (1.0 + std::exp(-in[0][i])), t = in[1][i];
                      sum -= t * std::log(p) + (1.0 - t) * std::log(1.0 - p);
                    }
                    return Arrays{scalar(sum / 35)};
                  }});
  rows.push_back(
      {"kl_divergence",
       {{{5, 7}}, {{5, 7}, 1.0, -1.0, false}},
       [](Context& ctx, const Tensors& in) { return Tensors{ops::kl_divergence(ctx, in[0], in[1])}; },
       [](const Arrays& in) {
         double sum = 0;
         for (int64_t i = 0; i < 35; ++i) sum += std::exp(in[1][i]) * (in[1][i] - in[0][i]);
         return Arrays{scalar(sum / 5)};
       }});
}

}  // namespace makar::test
