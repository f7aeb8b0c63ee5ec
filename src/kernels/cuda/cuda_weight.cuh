// Weights in the GPU's memory, row-major, in their original type; block types are decoded to f32.
#pragma once
#include "kernels/kernel_args.h"
#include "tensor/memory.h"

namespace makar::kernels {

class CudaWeight : public PackedWeight {
 public:
  CudaWeight(Memory& memory, DType type, int64_t n, int64_t k)
      : memory_(memory), type_(type), n_(n), k_(k), data_(memory.allocate(bytes())) {}
  ~CudaWeight() override { memory_.deallocate(data_, bytes()); }
  CudaWeight(const CudaWeight&) = delete;
  CudaWeight& operator=(const CudaWeight&) = delete;

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  DType type() const override { return type_; }
  size_t bytes() const override { return bytes_of(type_, n_ * k_); }
  std::byte* data() const { return data_; }
  Operand operand() const { return {data_, type_, k_, 1}; }

 private:
  Memory& memory_;
  DType type_;
  int64_t n_, k_;
  std::byte* data_;
};

}  // namespace makar::kernels
