#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/nearest.h"

namespace makar {
namespace {

struct Name {
  const char* name;
  ScheduleKind kind;
};
constexpr Name kNames[] = {
    {"constant", ScheduleKind::kConstant},
    {"constant_with_warmup", ScheduleKind::kConstant},
    {"linear", ScheduleKind::kLinear},
    {"cosine", ScheduleKind::kCosine},
    {"cosine_with_min_lr", ScheduleKind::kCosine},
    {"inverse_sqrt", ScheduleKind::kInverseSqrt},
    {"polynomial", ScheduleKind::kPolynomial},
    {"warmup_stable_decay", ScheduleKind::kStable},
    {"wsd", ScheduleKind::kStable},
};

double decay_factor(DecayShape shape, double progress) {
  switch (shape) {
    case DecayShape::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case DecayShape::kLinear:
      return 1.0 - progress;
    case DecayShape::kOneMinusSqrt:
      return 1.0 - std::sqrt(progress);
  }
  return 1.0;
}

}  // namespace

double Schedule::at(int64_t step) const {
  const double s = static_cast<double>(step), w = static_cast<double>(warmup);
  if (step < warmup) return peak * (s / std::max(1.0, w));
  const double span = std::max(1.0, static_cast<double>(total) - w), progress = (s - w) / span;
  switch (kind) {
    case ScheduleKind::kConstant:
      return peak;
    case ScheduleKind::kLinear:
      return peak * std::max(0.0, (static_cast<double>(total) - s) / span);
    case ScheduleKind::kCosine:
      return end + (peak - end) * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(progress, 1.0)));
    case ScheduleKind::kInverseSqrt: {
      const double scale = timescale > 0 ? static_cast<double>(timescale) : (warmup > 0 ? w : 10000.0);
      return peak / std::sqrt((s + scale - w) / scale);
    }
    case ScheduleKind::kPolynomial:
      return (peak - end) * std::pow(1.0 - std::min(progress, 1.0), power) + end;
    case ScheduleKind::kStable: {
      const double decay_step = s - static_cast<double>(total - decay);
      if (decay_step < 0) return peak;
      return end +
             (peak - end) *
                 decay_factor(shape, std::min(decay_step / std::max(1.0, static_cast<double>(decay)), 1.0));
    }
  }
  return peak;
}

Result<ScheduleKind> schedule_kind(const std::string& name) {
  for (const Name& n : kNames)
    if (name == n.name) return n.kind;
  const auto known = schedule_names();
  return error_at("lr_scheduler", "unknown schedule '{}'{}; expected one of: {}", name,
                  did_you_mean(name, known), fmt::join(known, ", "));
}

Result<DecayShape> decay_shape(const std::string& name) {
  if (name == "cosine") return DecayShape::kCosine;
  if (name == "linear") return DecayShape::kLinear;
  if (name == "1-sqrt") return DecayShape::kOneMinusSqrt;
  return error_at("decay_type", "unknown shape '{}'{}; expected one of: cosine, linear, 1-sqrt", name,
                  did_you_mean(name, {"cosine", "linear", "1-sqrt"}));
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Name& n : kNames) names.push_back(n.name);
  return names;
}

}  // namespace makar
