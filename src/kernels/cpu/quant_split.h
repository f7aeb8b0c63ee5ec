// How the CPU's kernels store a block type, and the function that splits its blocks.
#pragma once
#include <cstdint>

#include "kernels/split_block.h"

namespace makar::kernels {

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
