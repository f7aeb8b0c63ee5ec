// Arguments of matrix products.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace makar::kernels {

// One side of a product, read as [rows, k]: element (r, k) is at data[r * row_stride + k * k_stride]. One of
// the strides is 1.
struct Operand {
  const void* data = nullptr;
  DType type = DType::kF32;  // Gemm: A is f32, B f32, f16 or bf16; pack(): a block type too
  int64_t row_stride = 0;
  int64_t k_stride = 1;
};
// C[m, n] (+)= A[m, k] B[n, k]^T (+ bias[n], added last).
struct GemmOutput {
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
  const float* bias = nullptr;
};
struct Gemm {
  int64_t m, n, k;
  Operand a, b;
  GemmOutput out;
};

// `count` products in f32; matrices and outputs of product i begin i * step values after the first.
struct GemmBatch {
  Gemm first;
  int64_t count, a_step, b_step, c_step;
};

// Weights [n, k] packed for one device's kernels; created by Device::pack.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual int64_t n() const = 0;
  virtual int64_t k() const = 0;
  virtual DType type() const = 0;
  virtual size_t bytes() const = 0;
};
struct PackedProduct {
  const PackedWeight* b;
  GemmOutput out;
};
struct PackedGemm {  // several products with one A, bit-identical to separate calls
  int64_t m;
  Operand a;
  const PackedProduct* products;  // in host memory
  int64_t count;
};

}  // namespace makar::kernels
