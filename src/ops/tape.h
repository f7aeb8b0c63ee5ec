// The tape: records what was computed and walks it back. An op asks needs(input); when it does, it records
// how gradients of its outputs become gradients of its inputs. No tape, no cost: ops see a null pointer.
#pragma once
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace makar {

// What the tape needs to know of a tensor: a closure that holds a Key does not keep the values alive.
struct Key {
  uint64_t id = 0;
  Shape shape;
  Key() = default;
  Key(const Tensor& t) : id(t.defined() ? t.id() : 0), shape(t.defined() ? t.shape() : Shape()) {}
};

class Tape {
 public:
  // A parent is the tape whose leaves this one shares (activation checkpointing).
  explicit Tape(Tape* parent = nullptr) : parent_(parent) {}

  // A leaf: gradients are gathered for it. When `into` is given they are added to it (gradient accumulation).
  void watch(const Tensor& leaf, const Tensor& into = {});
  bool needs(const Key& t) const;
  // True when some of the gradient of `t` has come already.
  bool has_gradient(const Key& t) const {
    return gradients_.contains(t.id) || (parent_ && parent_->has_gradient(t));
  }

  // `backward` gets the gradients of `outputs`, in order; one that nothing depended on is undefined. It is
  // not called when none of them is wanted.
  using Backward = std::function<void(std::span<const Tensor> gradients)>;
  void record(std::span<const Tensor> outputs, Backward backward);
  void record(const Tensor& output, std::function<void(const Tensor& gradient)> backward);

  // Where an op adds its gradient for `t`: write to buffer, or add to it when accumulate is set.
  struct Target {
    Tensor buffer;
    bool accumulate;
  };
  Target target(const Key& t);
  // The gradient of `t` gets `gradient` added, without a copy when it is the first.
  void pass(const Key& t, const Tensor& gradient);

  // Walks back from `loss` with the given gradient (1 for a scalar when undefined). The records are used up.
  void backward(const Tensor& loss, Tensor gradient = {});

  // The gradient of a leaf; undefined when nothing reached it.
  Tensor gradient(const Tensor& leaf) const;

 private:
  struct Record {
    std::vector<uint64_t> outputs;
    Backward backward;
  };
  bool is_leaf(uint64_t id) const { return leaves_.contains(id) || (parent_ && parent_->is_leaf(id)); }

  Tape* parent_;
  std::vector<Record> records_;
  std::unordered_map<uint64_t, bool> tracked_;
  std::unordered_map<uint64_t, bool> leaves_;
  std::unordered_map<uint64_t, Tensor> gradients_;
};

}  // namespace makar
