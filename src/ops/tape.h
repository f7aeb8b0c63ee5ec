// The tape records ops and runs their gradients in reverse order. If needs(input) is true, an op records how
// to compute the gradients of its inputs from those of its outputs. Without a tape (a null pointer), ops
// record nothing.
#pragma once
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/device.h"
#include "tensor/tensor.h"

namespace makar {

// The address of a tensor for kernel arguments; null if absent. The tensor must be in the device's memory.
inline std::byte* address_on(Device& device, const Tensor& t) {
  if (!t.defined()) return nullptr;
  check(&t.memory() == &device.memory(), "a kernel's tensor is in another memory; to(Memory&) copies it");
  return t.address();
}
inline float* f32_on(Device& device, const Tensor& t) {
  return address_on(device, t) ? t.f32_address() : nullptr;
}

// Identifies a tensor on the tape; a closure that holds a Key does not keep the values alive.
struct Key {
  uint64_t id = 0;
  Shape shape;
  DType type = DType::kF32;  // of the gradient: bf16 for bf16 activations
  Key() = default;
  Key(const Tensor& t) {
    if (!t.defined()) return;
    id = t.id(), shape = t.shape();
    if (t.dtype() == DType::kBF16) type = DType::kBF16;
  }
};

class Tape {
 public:
  explicit Tape(Device& device) : device_(device) {}
  // A tape that shares the leaves of its parent (activation checkpointing).
  explicit Tape(Tape* parent) : device_(parent->device_), parent_(parent) {}

  // Declares a leaf whose gradient is collected, and added to `into` if given (gradient accumulation).
  void watch(const Tensor& leaf, const Tensor& into = {});
  bool needs(const Key& t) const;
  // True if part of the gradient of `t` has already been added.
  bool has_gradient(const Key& t) const {
    return gradients_.contains(t.id) || (parent_ && parent_->has_gradient(t));
  }

  // A closure captures by value (tests/structure/device.py): it runs after the op's caller has returned, and
  // may not refer to the caller's Context or tensors. `backward` receives the gradients of `outputs`, in
  // order; undefined for outputs without a gradient. It is not called if all of them are undefined.
  using Backward = std::function<void(std::span<const Tensor> gradients)>;
  void record(std::span<const Tensor> outputs, Backward backward);
  void record(const Tensor& output, std::function<void(const Tensor& gradient)> backward);

  // Gradient buffer of `t` for an op: overwrite it, or add to it if accumulate is set.
  struct Target {
    Tensor buffer;
    bool accumulate;
  };
  Target target(const Key& t);
  // Adds `gradient` to the gradient of `t`; no copy if it is the first.
  void pass(const Key& t, const Tensor& gradient);

  // The same for a gradient that nobody else uses: a leaf keeps it without a copy too.
  void give(const Key& t, const Tensor& gradient);

  // What the op that computed a gradient knows about it. Notes are dropped when the gradient changes.
  struct Notes {
    Tensor rounded;      // the gradient (f32) rounded to bf16
    Tensor column_sums;  // f32, of `rounded` or of a gradient in bf16, over all but the last dimension
  };
  void note(const Tensor& gradient, Notes notes);
  Notes take_notes(const Tensor& gradient);

  // Runs backwards from `loss` with the given gradient (default: 1 for a scalar). Consumes the records.
  void backward(const Tensor& loss, Tensor gradient = {});

  // The gradient of a leaf; undefined if none reached it.
  Tensor gradient(const Tensor& leaf) const;

 private:
  struct Record {
    std::vector<uint64_t> outputs;
    Backward backward;
  };
  bool is_leaf(uint64_t id) const { return leaves_.contains(id) || (parent_ && parent_->is_leaf(id)); }

  Device& device_;  // gradients are allocated and added there
  Tape* parent_ = nullptr;
  std::vector<Record> records_;
  std::unordered_map<uint64_t, bool> tracked_;
  std::unordered_map<uint64_t, bool> leaves_;
  std::unordered_map<uint64_t, Tensor> gradients_;
  std::unordered_map<uint64_t, Notes> notes_;  // by the gradient's id
};

}  // namespace makar
