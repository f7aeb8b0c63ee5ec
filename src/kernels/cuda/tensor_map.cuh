// Tensor maps: how the copy engine reads boxes of a row-major matrix (copy_box of instructions.cuh).
#pragma once
#include "kernels/cuda/bf16.cuh"

namespace makar::kernels::cuda {

constexpr int kBoxDepth = 64;                  // k of a box: rows of 128 bytes
constexpr int kBoxRowBytes = kBoxDepth * 2;

// Of a bf16 matrix [rows, k]. A box has `box_rows` rows; in shared memory, 16 bytes c of row r are at c ^ (r % 8) of its
// 128 bytes (128-byte swizzle), so a box begins at a multiple of 1,024 bytes. What is outside of the matrix is zero.
CUtensorMap tensor_map(const Bf16* data, int64_t rows, int64_t k, int box_rows);

}  // namespace makar::kernels::cuda
