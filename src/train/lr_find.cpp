#include "train/lr_find.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "optim/gradient_norm.h"

namespace makar {

Status choose_rate(RateFound& found) {
  const auto& y = found.smoothed;
  // Skip the first tenth: there the smoothed loss depends on only a few batches.
  const size_t begin = std::max<size_t>(2, y.size() / 10);
  const auto from = y.begin() + static_cast<std::ptrdiff_t>(std::min(begin, y.size()));
  const auto lowest = static_cast<size_t>(std::min_element(from, y.end()) - y.begin());
  // Slope between the points two steps before and after; the rates are evenly spaced on a logarithmic scale.
  double steepest = 0;
  for (size_t i = begin; i + 2 < y.size() && i <= lowest; ++i)
    if (const double slope = y[i + 2] - y[i - 2]; slope < steepest)
      steepest = slope, found.steepest = found.rates[i];
  if (steepest >= 0)
    return error_at("lr_find",
                    "the loss did not fall at any learning rate from {:.1e} to {:.1e}; check the data and "
                    "the model",
                    found.rates.front(), found.rates.back());
  found.lowest = found.rates[lowest];
  return Done{};
}

Result<RateFound> find_rate(const Loop& loop, const RateSearch& search) {
  MAKAR_CHECK_OK(check_loop(loop.settings));
  if (search.steps < 10 || search.steps > 100000)
    return error_at("lr_find_steps", "expected 10 to 100000, got {}", search.steps);
  MAKAR_TRY(Optimizers optimizers, Optimizers::make(loop.models, loop.settings));
  loop.models.to(loop.device.memory());
  constexpr double kKeep = 0.9;  // decay of the smoothed loss
  RateFound found;
  double sum = 0, share = 0, spent = 0;
  for (int64_t i = 0; i < search.steps; ++i) {
    if (loop.stop && loop.stop->load()) return error_at("lr_find", "stopped");
    const auto start = std::chrono::steady_clock::now();
    MAKAR_TRY(StepInfo info, step_gradients(loop, static_cast<uint64_t>(i)));
    if (!info.applied) break;
    const double at = static_cast<double>(i) / static_cast<double>(search.steps - 1);
    info.lr = search.low * std::pow(search.high / search.low, at);
    info.step = i + 1, info.total = search.steps;
    sum = kKeep * sum + (1 - kKeep) * info.loss, share = kKeep * share + (1 - kKeep);
    found.rates.push_back(info.lr), found.losses.push_back(info.loss), found.smoothed.push_back(sum / share);
    optimizers.step(loop.device, info.lr, clip_factor(info.norm, loop.settings.max_grad_norm));
    info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    spent += info.seconds;
    info.eta = spent / static_cast<double>(i + 1) * static_cast<double>(search.steps - i - 1);
    if (loop.events.step) loop.events.step(info);
    if (found.smoothed.back() > 2 * found.smoothed.front()) break;
  }
  if (found.rates.size() < 5)
    return error_at("lr_find", "the loss is not finite after {} steps; check the data and the model",
                    found.rates.size());
  MAKAR_CHECK_OK(choose_rate(found));
  return found;
}

}  // namespace makar
