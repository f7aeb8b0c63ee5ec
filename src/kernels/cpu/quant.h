// Matrix products on quantized weights: int8 activations (16 bits for f16 weights), exact integer dot
// products within a part (16, 32 or 64 values along k), f32 sums across parts in a fixed order. The bits of
// an output depend only on its row and column, not on the batch, the threads or the instruction set.
// quant_form.h defines the layouts, cpu/isa/quant.cpp the order.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/table.h"
#include "tensor/tensor.h"

namespace makar::kernels {

// Weights [n, k] of a block type, packed for the kernels without loss (except F16: the error is below 2^-16
// of the largest magnitude in a block of 64). Memory relative to the file: 1 for Q8_0, Q8_24, Q4_0, Q4_1 and
// IQ4_NL; F16 1.02, Q4_K 1.03, IQ4_XS 1.01, Q5_0 1.18, Q5_1 1.17, Q5_K 1.20, Q6_K 1.30, Q3_K 1.33, Q2_K 1.19,
// IQ2_XXS 2.09.
class QuantMatrix {
 public:
  QuantMatrix() = default;
  // `blocks`: n rows of k weights, contiguous, as in the file. k is a multiple of the type's block size.
  static QuantMatrix pack(ThreadPool& pool, DType type, const void* blocks, int64_t n, int64_t k,
                          const Table& table = cpu(), Memory& memory = host_memory());
  // The bytes that pack() allocates.
  static size_t bytes_for(DType type, int64_t n, int64_t k);
  bool defined() const { return data_.defined(); }
  DType type() const { return type_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  size_t bytes() const { return data_.bytes(); }
  const Table& table() const { return *table_; }

  int form() const { return form_; }
  int unit() const { return unit_; }  // the kernels read a weight times this factor
  const int8_t* codebook() const { return codebook_; }
  int64_t blocks() const { return blocks_; }  // of 64 values along k
  int64_t panel_bytes() const { return panel_bytes_; }
  const std::byte* panel(int64_t index) const { return data_.address() + index * panel_bytes_; }

 private:
  const Table* table_ = nullptr;
  Tensor data_;  // u8 [panels, panel_bytes]
  DType type_ = DType::kF32;
  int form_ = 0, unit_ = 1;
  const int8_t* codebook_ = nullptr;
  int64_t n_ = 0, k_ = 0, blocks_ = 0, panel_bytes_ = 0;
};

// The products of gemm.h. The rows of A are quantized first, once per form: see cpu/isa/quant_rows.cpp.
void quant_gemm(ThreadPool& pool, int64_t m, const Operand& a, const QuantMatrix& b, const GemmOutput& out);
void quant_gemm(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products);

}  // namespace makar::kernels
