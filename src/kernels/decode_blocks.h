// Decodes block types to floats, bit-identical to ggml's dequantize. Plain code: the reference for every
// faster kernel.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace makar::kernels {

// Decodes `count` elements, a multiple of the type's block size. The type is a block type, f32, f16 or bf16;
// `blocks` needs no alignment.
void decode_blocks(DType type, const void* blocks, int64_t count, float* out);

}  // namespace makar::kernels
