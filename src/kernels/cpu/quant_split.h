// One block of a GGUF type, split into small integers and scales as stored.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace makar::kernels {

struct SplitBlock {
  int8_t q[256];       // values, or indices into the codebook
  uint16_t d, min;     // f16 bits; min is added
  uint8_t scales[16];  // sub-block scales, if any; with bias 128 in forms without mins
  uint8_t part_mins[16];
};

using SplitBlockFn = void (*)(const void* block, SplitBlock& out);
SplitBlockFn split_block_of(DType type);

// How the kernels store a type.
struct QuantStorage {
  int form;
  int unit;                // the kernels read a weight times this factor
  const int8_t* codebook;  // 16 values
};
QuantStorage storage_of(DType type);

}  // namespace makar::kernels
