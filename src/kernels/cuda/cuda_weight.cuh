// Weights in the GPU's memory: row-major in their type, or block types in the layout of quant_form.cuh.
#pragma once
#include <memory>
#include <utility>

#include "base/error.h"
#include "kernels/kernel_args.h"
#include "tensor/memory.h"

namespace makar::kernels {

class CudaWeight : public PackedWeight {
 public:
  // `form`: of quant_form.cuh, with the bytes of that layout; -1: row-major. `data` may be a part of a block that several share.
  CudaWeight(DType type, int64_t n, int64_t k, int form, size_t bytes, std::shared_ptr<std::byte> data)
      : type_(type), n_(n), k_(k), form_(form), bytes_(bytes), data_(std::move(data)) {}

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  DType type() const override { return type_; }
  size_t bytes() const override { return bytes_; }
  std::byte* data() const { return data_.get(); }
  int form() const { return form_; }
  Operand operand() const { return {data(), type_, k_, 1}; }  // row-major only

 private:
  DType type_;
  int64_t n_, k_;
  int form_;
  size_t bytes_;
  std::shared_ptr<std::byte> data_;
};

// The weights of a layer of all experts: one after another in memory.
struct CudaExperts {
  const CudaWeight* first;
  int64_t step;  // bytes from one to the next

  CudaExperts(const ExpertProduct& p, int64_t experts) : first(static_cast<const CudaWeight*>(p.weights[0])), step(0) {
    const auto data = [&](int64_t i) { return static_cast<const CudaWeight*>(p.weights[i])->data(); };
    if (experts > 1) step = data(1) - data(0);
    for (int64_t i = 1; i < experts; ++i)
      check(data(i) - data(0) == i * step, "the experts of a layer must be packed together");
  }
};

}  // namespace makar::kernels
