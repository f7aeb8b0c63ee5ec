// Sums of sampling weights. A weight is a share of the best token's, at most 1. As integers, weights add up
// to the same sum in any order, on the host and on every device.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/inline.h"

namespace makar::kernels {

constexpr float kWeightUnits = 0x1p38f;  // of the weight 1: 33 million weights add up without overflow

MAKAR_INLINE int64_t weight_units(float weight) { return static_cast<int64_t>(weight * kWeightUnits); }
// The least sum of units that is at least a share of the total.
MAKAR_INLINE int64_t units_for(double share, int64_t total) {
  return static_cast<int64_t>(std::ceil(share * static_cast<double>(total)));
}
// A draw, `share` in [0, 1), falls on the weight that makes the running sum larger than this.
MAKAR_INLINE int64_t drawn_unit(double share, int64_t total) {
  const auto unit = static_cast<int64_t>(share * static_cast<double>(total));
  return unit < total ? unit : total - 1;
}

}  // namespace makar::kernels
