// Tensor: a cheap handle on shared storage with a dtype and a shape. Always contiguous and row-major; views
// are reshapes and slices of the first dimension. No maths here.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace makar {

// A block of bytes: our own (64-byte aligned, recycled) or someone else's kept alive by `keeper`.
class Storage {
 public:
  explicit Storage(size_t bytes);
  Storage(std::byte* data, size_t bytes, std::shared_ptr<const void> keeper)
      : data_(data), bytes_(bytes), keeper_(std::move(keeper)) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
  std::shared_ptr<const void> keeper_;
};

class Tensor {
 public:
  Tensor() = default;  // the absent tensor: defined() is false

  static Tensor empty(const Shape& shape, DType type = DType::kF32);
  static Tensor zeros(const Shape& shape, DType type = DType::kF32);
  static Tensor full(const Shape& shape, float value);
  static Tensor from(const Shape& shape, std::span<const float> values);
  static Tensor from(const Shape& shape, std::span<const int64_t> values);
  // A read-only view of foreign bytes, e.g. a mapped file.
  static Tensor view_of(const std::byte* data, const Shape& shape, DType type,
                        std::shared_ptr<const void> keeper);

  bool defined() const { return node_ != nullptr; }
  const Shape& shape() const { return node_->shape; }
  int rank() const { return shape().rank(); }
  int64_t dim(int i) const { return shape()[i]; }
  int64_t count() const { return node_->count; }
  DType dtype() const { return node_->type; }
  size_t bytes() const { return bytes_of(dtype(), count()); }
  // The identity the tape knows a tensor by: equal for copies of the handle, different for views.
  uint64_t id() const { return node_->id; }

  std::byte* raw() const { return node_->data; }
  template <class T>
  T* data() const {
    check(sizeof(T) == size_of(dtype()), "data() of another element size");
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
  std::span<float> span() const { return {f32(), static_cast<size_t>(count())}; }

  Tensor reshape(const Shape& shape) const;
  // Rows [begin, end) of the first dimension, sharing storage.
  Tensor slice(int64_t begin, int64_t end) const;
  Tensor clone() const;
  // The same bytes under another type that takes as many.
  Tensor viewed_as(DType type) const;
  Tensor to(DType type) const;  // converts between float types (and i64/i32 to float)
  // True when this handle (with `handles` - 1 other copies of it) is all that refers to the storage.
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
  };
  explicit Tensor(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  static Tensor make(std::shared_ptr<Storage> storage, std::byte* data, const Shape& shape, DType type);
  std::shared_ptr<Node> node_;
};

}  // namespace makar
