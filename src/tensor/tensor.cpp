#include "tensor/tensor.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace makar {

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

Storage::Storage(size_t bytes, Memory& memory)
    : memory_(memory), data_(memory.allocate(bytes)), bytes_(bytes) {}
Storage::~Storage() {
  if (!owner_) memory_.deallocate(data_, bytes_);
}

Tensor Tensor::make(std::shared_ptr<Storage> storage, std::byte* data, const Shape& shape, DType type) {
  static std::atomic<uint64_t> next{1};  // ids are never reused
  const int64_t count = shape.count();
  const uint64_t id = next.fetch_add(1, std::memory_order_relaxed);
  const bool host = storage->memory().is_host();
  return Tensor(std::make_shared<Node>(Node{std::move(storage), data, shape, count, type, id, host}));
}

namespace {
// Rows of a block type must consist of whole blocks.
void check_blocks(const Shape& shape, DType type) {
  const int64_t elements = layout_of(type).elements;
  check(elements == 1 || (shape.rank() > 0 && shape[shape.rank() - 1] % elements == 0),
        "a row of a block type must be whole blocks");
}
}  // namespace

Tensor Tensor::empty(const Shape& shape, DType type, Memory& memory) {
  for (const int64_t d : shape) check(d >= 0, "a dimension is negative");
  check_blocks(shape, type);
  auto storage = std::make_shared<Storage>(bytes_of(type, shape.count()), memory);
  std::byte* data = storage->data();
  return make(std::move(storage), data, shape, type);
}

Tensor Tensor::zeros(const Shape& shape, DType type, Memory& memory) {
  Tensor t = empty(shape, type, memory);
  memory.zero(t.address(), t.bytes());
  return t;
}

Tensor Tensor::full(const Shape& shape, float value) {
  Tensor t = empty(shape);
  std::fill_n(t.f32(), t.count(), value);
  return t;
}

Tensor Tensor::from(const Shape& shape, std::span<const float> values) {
  Tensor t = empty(shape);
  check(static_cast<int64_t>(values.size()) == t.count(), "values and shape disagree");
  std::copy(values.begin(), values.end(), t.f32());
  return t;
}

Tensor Tensor::from(const Shape& shape, std::span<const int64_t> values) {
  Tensor t = empty(shape, DType::kI64);
  check(static_cast<int64_t>(values.size()) == t.count(), "values and shape disagree");
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

Tensor Tensor::view_of(const std::byte* data, const Shape& shape, DType type,
                       std::shared_ptr<const void> owner) {
  auto* writable = const_cast<std::byte*>(data);
  check_blocks(shape, type);
  const size_t bytes = bytes_of(type, shape.count());
  check(owner != nullptr, "a view needs an owner that keeps its bytes alive");
  return make(std::make_shared<Storage>(writable, bytes, std::move(owner)), writable, shape, type);
}

Tensor Tensor::reshape(const Shape& shape) const {
  check(shape.count() == count(), "reshape must keep the number of elements");
  check_blocks(shape, dtype());
  return make(node_->storage, node_->data, shape, dtype());
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  check(rank() >= 1 && 0 <= begin && begin <= end && end <= dim(0), "slice out of range");
  Shape shape = this->shape();
  const int64_t row = dim(0) == 0 ? 0 : count() / dim(0);
  shape[0] = end - begin;
  return make(node_->storage, node_->data + bytes_of(dtype(), begin * row), shape, dtype());
}

Tensor Tensor::clone() const {
  Tensor t = empty(shape(), dtype(), memory());
  memory().copy(t.address(), address(), bytes());
  return t;
}

Tensor Tensor::to(Memory& to) const {
  if (&to == &memory()) return *this;
  if (!to.is_host() && !node_->host) return host().to(to);
  Tensor t = empty(shape(), dtype(), to);
  if (node_->host)
    to.copy_in(t.address(), address(), bytes());
  else
    memory().copy_out(t.address(), address(), bytes());
  return t;
}

Tensor Tensor::viewed_as(DType type) const {
  check(count() % layout_of(type).elements == 0 && bytes_of(type, count()) == bytes(),
        "viewed_as: the types differ in size");
  return make(node_->storage, node_->data, shape(), type);
}

Tensor Tensor::to(DType type) const {
  if (type == dtype()) return *this;
  Tensor out = empty(shape(), type);
  const int64_t n = count();
  const auto convert = [&](auto&& get) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = get(i);
      switch (type) {
        case DType::kF32:
          out.data<float>()[i] = static_cast<float>(v);
          break;
        case DType::kF64:
          out.data<double>()[i] = v;
          break;
        case DType::kF16:
          out.data<uint16_t>()[i] = to_f16(static_cast<float>(v));
          break;
        case DType::kBF16:
          out.data<uint16_t>()[i] = to_bf16(static_cast<float>(v));
          break;
        case DType::kI64:
          out.data<int64_t>()[i] = static_cast<int64_t>(v);
          break;
        default:
          check(false, "unsupported conversion to " + name(type));
      }
    }
  };
  switch (dtype()) {
    case DType::kF32:
      convert([&](int64_t i) { return data<float>()[i]; });
      break;
    case DType::kF64:
      convert([&](int64_t i) { return data<double>()[i]; });
      break;
    case DType::kF16:
      convert([&](int64_t i) { return from_f16(data<uint16_t>()[i]); });
      break;
    case DType::kBF16:
      convert([&](int64_t i) { return from_bf16(data<uint16_t>()[i]); });
      break;
    case DType::kI64:
      convert([&](int64_t i) { return static_cast<double>(data<int64_t>()[i]); });
      break;
    case DType::kI32:
      convert([&](int64_t i) { return data<int32_t>()[i]; });
      break;
    default:
      check(false, "unsupported conversion from " + name(dtype()));
  }
  return out;
}

}  // namespace makar
