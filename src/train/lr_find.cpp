#include "train/lr_find.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "optim/gradient_norm.h"

namespace makar {

Status choose_rate(RateSearchResult& result) {
  const auto& y = result.smoothed;
  // Skip the first tenth: there the smoothed loss depends on only a few batches.
  const size_t begin = std::max<size_t>(2, y.size() / 10);
  const auto from = y.begin() + static_cast<std::ptrdiff_t>(std::min(begin, y.size()));
  const auto lowest = static_cast<size_t>(std::min_element(from, y.end()) - y.begin());
  // Slope between the points two steps before and after; the rates are evenly spaced on a logarithmic scale.
  double steepest = 0;
  for (size_t i = begin; i + 2 < y.size() && i <= lowest; ++i)
    if (const double slope = y[i + 2] - y[i - 2]; slope < steepest)
      steepest = slope, result.steepest = result.rates[i];
  if (steepest >= 0)
    return error_at("lr_find",
                    "the loss did not fall at any learning rate from {:.1e} to {:.1e}; check the data and "
                    "the model",
                    result.rates.front(), result.rates.back());
  result.lowest = result.rates[lowest];
  return Done{};
}

Result<RateSearchResult> find_rate(const Loop& loop, const RateSearch& search) {
  MAKAR_RETURN_IF_ERROR(check_loop(loop.settings));
  if (search.steps < 10 || search.steps > 100000)
    return error_at("lr_find_steps", "expected 10 to 100000, got {}", search.steps);
  MAKAR_TRY(Optimizers optimizers, Optimizers::make(loop.models, loop.settings));
  loop.models.to(loop.device.memory());
  constexpr double kDecay = 0.9;  // decay of the smoothed loss
  RateSearchResult result;
  double sum = 0, weight_sum = 0, elapsed_seconds = 0;
  for (int64_t i = 0; i < search.steps; ++i) {
    if (loop.stop && loop.stop->load()) return error_at("lr_find", "stopped");
    const auto start = std::chrono::steady_clock::now();
    MAKAR_TRY(StepInfo info, step_gradients(loop, static_cast<uint64_t>(i)));
    if (!info.applied) break;
    const double progress = static_cast<double>(i) / static_cast<double>(search.steps - 1);
    info.lr = search.low * std::pow(search.high / search.low, progress);
    info.step = i + 1, info.total = search.steps;
    sum = kDecay * sum + (1 - kDecay) * info.loss, weight_sum = kDecay * weight_sum + (1 - kDecay);
    result.rates.push_back(info.lr), result.losses.push_back(info.loss),
        result.smoothed.push_back(sum / weight_sum);
    optimizers.step(loop.device, info.lr, clip_factor(info.norm, loop.settings.max_grad_norm));
    info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    elapsed_seconds += info.seconds;
    info.eta = elapsed_seconds / static_cast<double>(i + 1) * static_cast<double>(search.steps - i - 1);
    if (loop.events.step) loop.events.step(info);
    if (result.smoothed.back() > 2 * result.smoothed.front()) break;  // diverging
  }
  if (result.rates.size() < 5)
    return error_at("lr_find",
                    "the loss is not finite or has doubled after {} steps; check the data and the model",
                    result.rates.size());
  MAKAR_RETURN_IF_ERROR(choose_rate(result));
  return result;
}

}  // namespace makar
