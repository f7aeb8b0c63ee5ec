// Tensor: a cheap handle to shared storage with a dtype and a shape. Always contiguous and row-major; views
// are reshapes and slices of the first dimension. Operations are in src/ops.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

namespace makar {

// A block of a Memory (64-byte aligned, recycled), or external host bytes kept alive by `owner`.
class Storage {
 public:
  Storage(size_t bytes, Memory& memory);
  Storage(std::byte* data, size_t bytes, std::shared_ptr<const void> owner)
      : memory_(host_memory()), data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Memory& memory() const { return memory_; }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Memory& memory_;
  std::byte* data_;
  size_t bytes_;
  std::shared_ptr<const void> owner_;
};

class Tensor {
 public:
  Tensor() = default;  // an absent tensor: defined() is false

  static Tensor empty(const Shape& shape, DType type = DType::kF32, Memory& memory = host_memory());
  static Tensor zeros(const Shape& shape, DType type = DType::kF32, Memory& memory = host_memory());
  // The following are created in host memory; to(Memory&) copies them elsewhere.
  static Tensor full(const Shape& shape, float value);
  static Tensor from(const Shape& shape, std::span<const float> values);
  static Tensor from(const Shape& shape, std::span<const int64_t> values);
  // A read-only view of external bytes, e.g. a mapped file.
  static Tensor view_of(const std::byte* data, const Shape& shape, DType type,
                        std::shared_ptr<const void> owner);

  bool defined() const { return node_ != nullptr; }
  const Shape& shape() const { return node_->shape; }
  int rank() const { return shape().rank(); }
  int64_t dim(int i) const { return shape()[i]; }
  int64_t count() const { return node_->count; }
  DType dtype() const { return node_->type; }
  size_t bytes() const { return bytes_of(dtype(), count()); }
  // The tensor's identity on the tape: equal for copies of the handle, different for views.
  uint64_t id() const { return node_->id; }

  Memory& memory() const { return node_->storage->memory(); }
  // This tensor in host memory or in `memory`: the same handle if it is already there, otherwise a copy.
  Tensor host() const { return to(host_memory()); }
  Tensor to(Memory& memory) const;

  // The address within memory(), for kernel arguments; only kernels may dereference it.
  std::byte* address() const { return node_->data; }
  float* f32_address() const {
    check(dtype() == DType::kF32, "an f32 tensor is expected");
    return reinterpret_cast<float*>(node_->data);
  }
  const int64_t* i64_address() const {
    check(dtype() == DType::kI64, "an i64 tensor is expected");
    return reinterpret_cast<const int64_t*>(node_->data);
  }

  // Host pointers; the tensor must be in host memory.
  std::byte* raw() const {
    check(node_->host, "host access to a tensor in device memory; host() copies it");
    return node_->data;
  }
  template <class T>
  T* data() const {
    check(sizeof(T) == size_of(dtype()), "data<T>(): T differs in size from the tensor's elements");
    return reinterpret_cast<T*>(raw());
  }
  float* f32() const {
    check(dtype() == DType::kF32, "an f32 tensor is expected");
    return reinterpret_cast<float*>(raw());
  }
  const int64_t* i64() const {
    check(dtype() == DType::kI64, "an i64 tensor is expected");
    return reinterpret_cast<const int64_t*>(raw());
  }
  // Deleted for temporaries such as host(): the copy would be destroyed before the span is used.
  std::span<float> span() const&& = delete;
  std::span<float> span() const& { return {f32(), static_cast<size_t>(count())}; }

  Tensor reshape(const Shape& shape) const;
  // Rows [begin, end) of the first dimension, sharing storage.
  Tensor slice(int64_t begin, int64_t end) const;
  Tensor clone() const;  // in the same memory
  // The same bytes as another type of equal size.
  Tensor viewed_as(DType type) const;
  Tensor to(DType type) const;  // on the host: f32, f64, f16, bf16, i64; also from i32
  // Whether this handle (and `handles` - 1 copies of it) holds the only references to the storage.
  bool exclusive(long handles = 1) const {
    return node_.use_count() == handles && node_->storage.use_count() == 1;
  }

 private:
  struct Node {
    std::shared_ptr<Storage> storage;
    std::byte* data;
    Shape shape;
    int64_t count;
    DType type;
    uint64_t id;
    bool host;  // in host memory
  };
  explicit Tensor(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  static Tensor make(std::shared_ptr<Storage> storage, std::byte* data, const Shape& shape, DType type);
  std::shared_ptr<Node> node_;
};

}  // namespace makar
