// Matrix products in f32 with one fixed order along k for every output: k in sequence, fused multiply-add
// (quant.h has the order for quantised weights).
// The bits of an output do not depend on the other rows and columns, on blocking, or on threads.
#pragma once
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/quant.h"
#include "tensor/tensor.h"

namespace makar::kernels {

// One side of a product, read as [rows, k]: element (r, k) stands at data[r * row_stride + k * k_stride].
// One of the strides is 1.
struct Operand {
  const void* data = nullptr;
  DType type = DType::kF32;  // A is f32; B may be f32, f16 or bf16, and for packing a block type
  int64_t row_stride = 0;
  int64_t k_stride = 1;
};

// Weights [n, k] laid out in this machine's panels once, for many products.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  static PackedMatrix pack(ThreadPool& pool, const Operand& b, int64_t n, int64_t k,
                           const Table& table = cpu());
  // What pack() takes.
  static size_t bytes_for(DType type, int64_t n, int64_t k, const Table& table = cpu());
  bool defined() const { return data_.defined() || quant_.defined(); }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  DType type() const { return quant_.defined() ? quant_.type() : data_.dtype(); }
  size_t bytes() const { return quant_.defined() ? quant_.bytes() : data_.bytes(); }
  const QuantMatrix& quant() const { return quant_; }  // defined for block types
  const void* panel(int64_t index) const;              // [k][nr]; the last panel is padded with zeros
  const Table& table() const { return *table_; }
  bool finite_f16() const { return finite_f16_; }  // f16 without infinities and NaNs

 private:
  const Table* table_ = nullptr;
  bool finite_f16_ = false;
  Tensor data_;  // [panels, k, nr] in the type of the weights
  QuantMatrix quant_;
  int64_t n_ = 0, k_ = 0;
};

// C[m, n] = (accumulate ? C : 0) + A[m, k] B[n, k]^T (+ bias[n], added last).
struct GemmOutput {
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
  const float* bias = nullptr;
};

// A kernel table other than this machine's best serves the tests that compare their bits.
void gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b,
          const GemmOutput& out, const Table& table = cpu());
void gemm(ThreadPool& pool, int64_t m, const Operand& a, const PackedMatrix& b, const GemmOutput& out);

// Several products with one A: the bits of each alone, with fewer times that threads wait for each other.
struct PackedProduct {
  const PackedMatrix* b;
  GemmOutput out;
};
void gemm(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products);

}  // namespace makar::kernels
