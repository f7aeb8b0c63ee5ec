// Passed to every op: the device, the optional tape, and the counters that random numbers depend on.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "ops/tape.h"

namespace makar {

// Observes the input x [rows, in] of every weight matrix w [out, in].
struct LinearObserver {
  virtual ~LinearObserver() = default;
  virtual void observe(const Tensor& w, const Tensor& x) = 0;
};

// An index array that is already on the device.
struct UploadedIndices {
  std::span<const int64_t> values;
  Tensor on_device;
  bool used = false;
};

// Recorded gradients hold a copy of the context, which may be destroyed before the backward pass. The device
// and the parameters must outlive the tape.
struct Context {
  Device& device;
  Tape* tape = nullptr;
  bool training = false;  // dropout is on, and batch norm uses the statistics of the batch
  uint64_t seed = 0, step = 0;
  uint64_t stream = 0;  // one per dropout site, in call order; reset for each forward pass
  LinearObserver* observer = nullptr;
  // Adapter index per row, -1 for none; empty: no adapters. Code that gathers rows must gather these too.
  std::span<const int32_t> row_adapters = {};
  bool without_adapters = false;  // layers ignore attached adapters: the base model
  // f32, or bf16: mixed precision. Products, norms, attention and activations then return bf16 tensors, with
  // sums in f32; parameters, their gradients, the residual stream and losses stay f32. Ops without a bf16
  // kernel take and return f32 values (ops/bf16.h).
  DType activations = DType::kF32;
  // upload() returns these tensors for the arrays they belong to, by address. Must outlive the tape.
  std::span<UploadedIndices> uploaded = {};

  bool needs(const Key& t) const { return tape && tape->needs(t); }
  template <class... T>
  bool any_needs(const T&... t) const {
    return tape && (tape->needs(t) || ...);
  }

  // Allocate tensors in the device's memory; upload() copies an index array there.
  Tensor empty(const Shape& shape, DType type = DType::kF32) const {
    return Tensor::empty(shape, type, device.memory());
  }
  Tensor zeros(const Shape& shape, DType type = DType::kF32) const {
    return Tensor::zeros(shape, type, device.memory());
  }
  Tensor upload(std::span<const int64_t> values) const {
    for (UploadedIndices& u : uploaded)
      if (u.values.data() == values.data() && u.values.size() == values.size()) {
        u.used = true;
        return u.on_device;
      }
    return Tensor::from({static_cast<int64_t>(values.size())}, values).to(device.memory());
  }

  // The address of a tensor for kernel arguments; null if absent.
  std::byte* address(const Tensor& t) const { return address_on(device, t); }
  float* f32(const Tensor& t) const { return f32_on(device, t); }
  kernels::Bf16* bf16(const Tensor& t) const {
    if (!t.defined()) return nullptr;
    check(t.dtype() == DType::kBF16, "expected a bf16 tensor");
    return reinterpret_cast<kernels::Bf16*>(address(t));
  }
  const int64_t* i64(const Tensor& t) const { return address(t), t.i64_address(); }
};

}  // namespace makar
