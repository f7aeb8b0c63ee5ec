#include "base/rng.h"

#include <cmath>
#include <numbers>

namespace makar {

float Rng::normal(uint64_t index) const {
  const auto b = bits(index);
  const double u = (static_cast<double>(b[0]) + 1.0) * 0x1p-32;  // in (0, 1]
  const double v = static_cast<double>(b[1]) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

}  // namespace makar
