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
};

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
  }
  return peak;
}

Result<ScheduleKind> schedule_kind(const std::string& name) {
  for (const Name& n : kNames)
    if (name == n.name) return n.kind;
  const auto known = schedule_names();
  return error_at("lr_scheduler", "unknown schedule '{}'{}; known: {}", name, did_you_mean(name, known),
                  fmt::join(known, ", "));
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Name& n : kNames) names.push_back(n.name);
  return names;
}

}  // namespace makar
