// Small integers and a scale for a run of values: x ~ scale * q, or x ~ scale * q + offset, with the least
// weighted squared error among many starts. What every block type is encoded with.
#pragma once
#include <cstdint>

namespace makar {

constexpr int kMaxRun = 32;

struct Run {
  const float* x;
  const float* w;  // weights of the errors; null: all 1
  int n;           // at most kMaxRun, a multiple of 4
};

// q in [lo, hi].
struct SymmetricFit {
  float scale = 0;
  double error = 0;
};
SymmetricFit fit_symmetric(const Run& run, int lo, int hi);

// q in [0, hi]; scale >= 0.
struct AffineFit {
  float scale = 0, offset = 0;
  double error = 0;
};
AffineFit fit_affine(const Run& run, int hi, bool offset_not_positive);

// Nearest integers for given scales, and the weighted squared error they leave.
double round_to(const Run& run, float scale, float offset, int lo, int hi, int8_t* q);

}  // namespace makar
