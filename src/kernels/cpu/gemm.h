// Matrix products in f32 with one fixed order along k for every output: k in sequence, fused multiply-add
// (quant.h has the order for quantized weights).
// The bits of an output do not depend on the other rows and columns, on blocking, or on threads.
#pragma once
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/table.h"
#include "tensor/tensor.h"

namespace makar::kernels {

// Weights [n, k] packed once into this machine's panels for repeated products.
class PackedMatrix final : public PackedWeight {
 public:
  PackedMatrix() = default;
  static PackedMatrix pack(ThreadPool& pool, const Operand& b, int64_t n, int64_t k,
                           const Table& table = cpu(), Memory& memory = host_memory());
  // The bytes that pack() allocates.
  static size_t bytes_for(DType type, int64_t n, int64_t k, const Table& table = cpu());
  bool defined() const { return data_.defined() || quant_.defined(); }
  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  DType type() const override { return quant_.defined() ? quant_.type() : data_.dtype(); }
  size_t bytes() const override { return quant_.defined() ? quant_.bytes() : data_.bytes(); }
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

// Tests pass other kernel tables to compare their bits.
void gemm(ThreadPool& pool, int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b,
          const GemmOutput& out, const Table& table = cpu());
void gemm(ThreadPool& pool, int64_t m, const Operand& a, const PackedMatrix& b, const GemmOutput& out);

// Several products with one A: bit-identical to separate calls, with fewer thread barriers.
void gemm(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products);

}  // namespace makar::kernels
