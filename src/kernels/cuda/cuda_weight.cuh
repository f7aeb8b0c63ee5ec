// Weights in the GPU's memory: row-major in their type, or block types in the layout of quant_form.cuh.
#pragma once
#include "kernels/kernel_args.h"
#include "tensor/memory.h"

namespace makar::kernels {

class CudaWeight : public PackedWeight {
 public:
  // `form`: of quant_form.cuh, with the bytes of that layout; -1: row-major.
  CudaWeight(Memory& memory, DType type, int64_t n, int64_t k, int form, size_t bytes)
      : memory_(memory), type_(type), n_(n), k_(k), form_(form), bytes_(bytes), data_(memory.allocate(bytes)) {}
  ~CudaWeight() override { memory_.deallocate(data_, bytes_); }
  CudaWeight(const CudaWeight&) = delete;
  CudaWeight& operator=(const CudaWeight&) = delete;

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  DType type() const override { return type_; }
  size_t bytes() const override { return bytes_; }
  std::byte* data() const { return data_; }
  int form() const { return form_; }
  Operand operand() const { return {data_, type_, k_, 1}; }  // row-major only

 private:
  Memory& memory_;
  DType type_;
  int64_t n_, k_;
  int form_;
  size_t bytes_;
  std::byte* data_;
};

}  // namespace makar::kernels
