// Encoders of the 256-value super-blocks: Q4_K, Q5_K, Q6_K.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace makar {

// `importance`: one error weight per value, or null.
void encode_super_blocks(DType type, const float* x, int64_t count, const float* importance, std::byte* out);

}  // namespace makar
