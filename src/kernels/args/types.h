// Types that several kernels' arguments use. kernel_args.h states the rules.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace makar::kernels {

enum class Activation {
  kRelu,
  kGelu,
  kGeluTanh,
  kSilu,
  kTanh,
  kSigmoid,
  kSoftplus,
  kExp,
  kLogSigmoid,
  kSquare
};
constexpr int kActivations = 10;

// A bf16 value, the type of tensors between layers in mixed precision.
struct Bf16 {
  uint16_t bits;
};

}  // namespace makar::kernels
