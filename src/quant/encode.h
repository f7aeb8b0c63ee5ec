// Encodes floats as GGUF types: f16, bf16 and the block types. Each block gets the integers and scales with
// the least squared error (fit.h); decode_blocks dequantizes them.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace makar {

// Whether at least 2 of every 4 weights of each row are zero, and rows are whole blocks of 32.
bool is_two_of_four(const Tensor& x);
// Whether encode() supports the type; kQ8_24 requires weights for which is_two_of_four() is true.
bool can_encode(DType type);

// `x`: f32 [rows, columns] (or more dimensions, rows first). `importance` has one error weight per column, or
// is empty. A row must be a whole number of blocks. The bits do not depend on the number of threads.
Tensor encode(ThreadPool& pool, const Tensor& x, DType type, std::span<const float> importance = {});

// Encodes one row; `importance` has one error weight per value, or is null.
void encode_row(DType type, const float* x, int64_t count, const float* importance, std::byte* out);

}  // namespace makar
