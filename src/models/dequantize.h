// Dequantization of whole tensors on the host, for loading and conversion.
#pragma once
#include "tensor/tensor.h"

namespace makar {

// Converts a tensor of a block type, f16 or bf16 to f32; returns the tensor itself when it is f32.
Tensor dequantized(const Tensor& t);

}  // namespace makar
