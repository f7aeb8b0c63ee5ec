// Floats into the types of GGUF: f16, bf16 and the block types. Each block gets the integers and scales that
// leave the least squared error (fit.h); decode_blocks reads them back.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace makar {

// Types that encode() writes.
bool can_encode(DType type);

// `x`: f32 [rows, columns] (or more dimensions, rows first). `importance` has a weight for each column's
// error, or is empty. Rows are whole blocks. The bits do not depend on the number of threads.
Tensor encode(ThreadPool& pool, const Tensor& x, DType type, std::span<const float> importance = {});

// One row; `weights` as long as the row, or null.
void encode_row(DType type, const float* x, int64_t count, const float* weights, std::byte* out);

}  // namespace makar
