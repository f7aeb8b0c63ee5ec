// Softmax, log-softmax and losses.
#pragma once
#include <span>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

Tensor softmax(Context& ctx, const Tensor& x);      // over the last dimension
Tensor log_softmax(Context& ctx, const Tensor& x);  // over the last dimension

constexpr int64_t kIgnore = -100;

enum class Reduction { kMean, kSum };  // the mean is over the targets that are not ignored

struct CrossEntropyOptions {
  float smoothing = 0.0f;
  Reduction reduction = Reduction::kMean;
  float soft_cap = 0.0f;  // of the logits; linear_cross_entropy only
  // Maximum logits in memory at a time in linear_cross_entropy (at least one row).
  int64_t max_logits = int64_t{16} << 20;
};

// Number of targets that are not ignored; each must be kIgnore or in [0, classes).
int64_t counted_targets(std::span<const int64_t> targets, int64_t classes);

// x [rows, classes], one target per row (kIgnore: skipped) -> [].
Tensor cross_entropy(Context& ctx, const Tensor& x, std::span<const int64_t> targets,
                     const CrossEntropyOptions& options = {});

// cross_entropy(x W^T + b) without holding all logits: processes blocks of rows, and with a tape computes
// each block's gradients immediately.
Tensor linear_cross_entropy(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                            std::span<const int64_t> targets, const CrossEntropyOptions& options = {});

Tensor mse_loss(Context& ctx, const Tensor& x, const Tensor& target);
// Binary cross-entropy on logits.
Tensor bce_loss(Context& ctx, const Tensor& logits, const Tensor& target);
// Sum of p (log p - log q) over classes, mean over rows. Both arguments are log-probabilities; target_log_p
// is a constant.
Tensor kl_divergence(Context& ctx, const Tensor& log_q, const Tensor& target_log_p);

}  // namespace makar::ops
