// Dequantization of whole tensors on the host, for loading and conversion.
#pragma once
#include "tensor/tensor.h"

namespace makar {

// The values in f32: of a block type, f16 or bf16. Returns the tensor itself when it is f32.
Tensor dequantized(const Tensor& t);

}  // namespace makar
