// Fits small integers and a scale to some values: x ~ scale * q, or x ~ scale * q + offset, with the least
// weighted squared error over many starting points. All block types are encoded with this.
#pragma once
#include <cstdint>

namespace makar {

constexpr int kMaxFitValues = 32;

struct FitValues {
  const float* x;
  const float* w;  // error weights; null means all 1
  int n;           // at most kMaxFitValues, a multiple of 4
};

// q in [lo, hi].
struct SymmetricFit {
  float scale = 0;
  double error = 0;
};
SymmetricFit fit_symmetric(const FitValues& values, int lo, int hi);

// q in [0, hi]; scale >= 0.
struct AffineFit {
  float scale = 0, offset = 0;
  double error = 0;
};
AffineFit fit_affine(const FitValues& values, int hi, bool offset_not_positive);

// Rounds to the nearest integers for given scales; returns the weighted squared error.
double round_to(const FitValues& values, float scale, float offset, int lo, int hi, int8_t* q);

}  // namespace makar
