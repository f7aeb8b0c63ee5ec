#include "retrieval/vector_rows.h"

#include <algorithm>

namespace makar {
namespace {

float squared_length(const Int8Vector& v) {
  const auto width = static_cast<int64_t>(v.values.size());
  return v.scale * v.scale * static_cast<float>(dot_product(v.values.data(), v.values.data(), width));
}

}  // namespace

VectorRows::Query VectorRows::query(const std::vector<float>& vector) const {
  check(static_cast<int64_t>(vector.size()) == width_, "a query has the width of the vectors");
  Query out;
  out.values = vector;
  if (type_ == VectorType::kInt8) {
    out.int8 = to_int8(vector.data(), width_);
    out.norm = squared_length(out.int8);
  }
  return out;
}

VectorRows::Query VectorRows::row_query(size_t row) const {
  Query out;
  const auto begin = static_cast<int64_t>(row) * width_;
  if (type_ == VectorType::kF32) {
    out.values.assign(f32_.begin() + begin, f32_.begin() + begin + width_);
  } else {
    out.int8 = {scales_[row], {int8_.begin() + begin, int8_.begin() + begin + width_}};
    out.norm = norms_[row];
  }
  return out;
}

void VectorRows::set(size_t at, const float* vector) {
  check(at <= size_, "rows are added in order");
  const auto width = static_cast<size_t>(width_);
  if (at == size_) {
    ++size_;
    if (type_ == VectorType::kF32) {
      f32_.resize(size_ * width);
    } else {
      int8_.resize(size_ * width);
      scales_.resize(size_), norms_.resize(size_);
    }
  }
  if (type_ == VectorType::kF32) {
    std::copy(vector, vector + width, f32_.data() + at * width);
    return;
  }
  const Int8Vector quantized = to_int8(vector, width_);
  std::copy(quantized.values.begin(), quantized.values.end(), int8_.data() + at * width);
  scales_[at] = quantized.scale;
  norms_[at] = squared_length(quantized);
}

void VectorRows::distances(const Query& query, std::span<const uint32_t> rows,
                           std::vector<float>& out) const {
  out.resize(rows.size());
  if (type_ == VectorType::kInt8) {
    for (size_t i = 0; i < rows.size(); ++i) out[i] = distance(query, rows[i]);
    return;
  }
  constexpr size_t kAtOnce = 16;
  for (size_t begin = 0; begin < rows.size(); begin += kAtOnce) {
    const float* values[kAtOnce];
    const size_t count = std::min(kAtOnce, rows.size() - begin);
    for (size_t i = 0; i < count; ++i)
      values[i] = f32_.data() + static_cast<int64_t>(rows[begin + i]) * width_;
    const std::span<const float* const> some(values, count);
    if (similarity_ == Similarity::kL2) {
      squared_distances(query.values.data(), some, width_, out.data() + begin);
    } else {
      dot_products(query.values.data(), some, width_, out.data() + begin);
      for (size_t i = 0; i < count; ++i) out[begin + i] = -out[begin + i];
    }
  }
}

float VectorRows::int8_distance(const int8_t* values, float scale, float norm, size_t row) const {
  const int32_t dot = dot_product(values, int8_.data() + static_cast<int64_t>(row) * width_, width_);
  const float product = scale * scales_[row] * static_cast<float>(dot);
  return similarity_ == Similarity::kL2 ? norm + norms_[row] - 2 * product : -product;
}

float VectorRows::between(size_t a, size_t b) const {
  if (type_ == VectorType::kInt8)
    return int8_distance(int8_.data() + static_cast<int64_t>(a) * width_, scales_[a], norms_[a], b);
  const float *x = f32_.data() + static_cast<int64_t>(a) * width_,
              *y = f32_.data() + static_cast<int64_t>(b) * width_;
  return similarity_ == Similarity::kL2 ? squared_distance(x, y, width_) : -dot_product(x, y, width_);
}

}  // namespace makar
