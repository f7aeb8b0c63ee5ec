#include "nets/losses.h"

#include <cmath>

#include "base/nearest.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

using ops::Activation;

Tensor matrix(Context& ctx, int64_t rows, const std::vector<float>& values) {
  return Tensor::from({rows, static_cast<int64_t>(values.size()) / rows}, std::span<const float>(values))
      .to(ctx.device.memory());
}

Tensor absolute(Context& ctx, const Tensor& x) { return ops::maximum(ctx, x, ops::scale(ctx, x, -1.0f)); }

// Row i: one at targets[i], zero elsewhere.
Tensor one_hot(Context& ctx, const std::vector<int64_t>& targets, int64_t classes) {
  std::vector<float> values(targets.size() * static_cast<size_t>(classes), 0.0f);
  for (size_t i = 0; i < targets.size(); ++i)
    values[i * static_cast<size_t>(classes) + static_cast<size_t>(targets[i])] = 1.0f;
  return matrix(ctx, static_cast<int64_t>(targets.size()), values);
}

// Sum over other classes of max(0, 1 + x_other - x_target) (Weston and Watkins, 1999); optionally squared.
Tensor hinge(Context& ctx, const Tensor& x, const std::vector<int64_t>& targets, bool squared) {
  const int64_t rows = x.dim(0), classes = x.dim(1);
  const Tensor target_score = ops::reshape(ctx, ops::pick(ctx, x, targets), {rows, 1});
  const Tensor ones = matrix(ctx, 1, std::vector<float>(static_cast<size_t>(classes), 1.0f));
  Tensor margin = ops::shift(ctx, ops::subtract(ctx, x, ops::matmul(ctx, target_score, ones)), 1.0f);
  margin = ops::subtract(ctx, margin, one_hot(ctx, targets, classes));  // the target's own margin is 0
  margin = ops::activate(ctx, margin, Activation::kRelu);
  if (squared) margin = ops::activate(ctx, margin, Activation::kSquare);
  return ops::scale(ctx, ops::sum(ctx, margin), 1.0f / static_cast<float>(rows));
}

}  // namespace

const std::vector<LossKind>& loss_kinds() {
  static const std::vector<LossKind> kKinds = {
      {"cross-entropy", true, "softmax cross-entropy"},
      {"hinge", true, "margins of 1 to the other classes"},
      {"squared-hinge", true, "squared margins of 1 to the other classes"},
      {"brier", true, "squared error of the probabilities"},
      {"binary-cross-entropy", true, "one sigmoid per class"},
      {"mse", false, "squared error"},
      {"mae", false, "absolute error"},
      {"huber", false, "squared up to 1, then absolute"},
      {"log-cosh", false, "log(cosh(error))"},
      {"poisson", false, "exp(x) - target x, for counts"},
  };
  return kKinds;
}

Result<std::string> loss_named(const std::string& name, bool classes, const std::string& place) {
  if (name == "auto") return std::string(classes ? "cross-entropy" : "mse");
  std::vector<std::string> known;
  for (const LossKind& k : loss_kinds())
    if (k.classes == classes) {
      if (name == k.name) return name;
      known.emplace_back(k.name);
    }
  return error_at(place, "unknown loss '{}' for {}{}; expected one of: {}", name,
                  classes ? "classes" : "numbers", did_you_mean(name, known), fmt::join(known, ", "));
}

Tensor class_loss(Context& ctx, const std::string& loss, const Tensor& x,
                  const std::vector<int64_t>& targets) {
  if (loss == "hinge") return hinge(ctx, x, targets, false);
  if (loss == "squared-hinge") return hinge(ctx, x, targets, true);
  if (loss == "binary-cross-entropy") return ops::bce_loss(ctx, x, one_hot(ctx, targets, x.dim(1)));
  if (loss == "brier")
    return ops::scale(ctx, ops::mse_loss(ctx, ops::softmax(ctx, x), one_hot(ctx, targets, x.dim(1))),
                      static_cast<float>(x.dim(1)));
  return ops::cross_entropy(ctx, x, targets);
}

Tensor number_loss(Context& ctx, const std::string& loss, const Tensor& x,
                   const std::vector<float>& targets) {
  const Tensor target = matrix(ctx, x.dim(0), targets);
  if (loss == "mse") return ops::mse_loss(ctx, x, target);
  if (loss == "poisson")
    return ops::mean(
        ctx, ops::subtract(ctx, ops::activate(ctx, x, Activation::kExp), ops::multiply(ctx, x, target)));
  const Tensor error = absolute(ctx, ops::subtract(ctx, x, target));
  if (loss == "mae") return ops::mean(ctx, error);
  if (loss == "huber") {  // c^2 / 2 + (error - c) with c = min(error, 1) (clipped)
    const Tensor clipped = ops::clamp(ctx, error, 0.0f, 1.0f);
    return ops::mean(ctx,
                     ops::add(ctx, ops::scale(ctx, ops::activate(ctx, clipped, Activation::kSquare), 0.5f),
                              ops::subtract(ctx, error, clipped)));
  }
  // log(cosh(e)) = e + log(1 + exp(-2 e)) - log 2
  const Tensor tail = ops::activate(ctx, ops::scale(ctx, error, -2.0f), Activation::kSoftplus);
  return ops::mean(ctx, ops::shift(ctx, ops::add(ctx, error, tail), -std::log(2.0f)));
}

}  // namespace makar
