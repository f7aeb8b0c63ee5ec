// Learning rate as a function of the step: warm-up, then a decay. Step 0 is the first update, as in
// transformers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

enum class ScheduleKind { kConstant, kLinear, kCosine, kInverseSqrt, kPolynomial, kStable };
// The decay phase of warm-up, stable, decay (Hu et al., 2024; 1-sqrt: Hägele et al., 2024).
enum class DecayShape { kCosine, kLinear, kOneMinusSqrt };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 1e-3;
  int64_t warmup = 0;  // steps from 0 up to the peak
  int64_t total = 0;   // the step at which linear, cosine, polynomial and stable end
  double end = 0.0;    // the final rate of cosine, polynomial and stable
  int64_t decay = 0;   // stable: length of the decay phase, the last steps of the run
  DecayShape shape = DecayShape::kCosine;
  double power = 1.0;     // polynomial
  int64_t timescale = 0;  // inverse square root; 0 uses the warm-up, or 10000 without one

  double at(int64_t step) const;
};

// Takes the names of transformers and Axolotl: "cosine", "constant_with_warmup", ...
Result<ScheduleKind> schedule_kind(const std::string& name);
std::vector<std::string> schedule_names();
// "cosine", "linear", "1-sqrt"
Result<DecayShape> decay_shape(const std::string& name);

}  // namespace makar
