// A matrix of vectors in memory, f32 or int8, and distances to its rows.
#pragma once
#include "retrieval/vector_codec.h"

namespace makar {

// Distances: smaller is nearer. Cosine and dot: the negative dot product (the vectors of cosine have length
// 1); L2: the squared distance.
class VectorRows {
 public:
  VectorRows(int64_t width, VectorType type, Similarity similarity)
      : width_(width), type_(type), similarity_(similarity) {}

  struct Query {
    std::vector<float> values;
    Int8Vector int8;  // the values, if the rows are int8
    float norm = 0;   // squared length of `int8`
  };
  Query query(const std::vector<float>& vector) const;
  Query row_query(size_t row) const;

  size_t size() const { return size_; }
  int64_t width() const { return width_; }
  // Writes row `at`, which may be one past the last.
  void set(size_t at, const float* vector);
  float distance(const Query& query, size_t row) const {
    if (type_ == VectorType::kF32) {
      const float* values = f32_.data() + static_cast<int64_t>(row) * width_;
      return similarity_ == Similarity::kL2 ? squared_distance(query.values.data(), values, width_)
                                            : -dot_product(query.values.data(), values, width_);
    }
    return int8_distance(query.int8.values.data(), query.int8.scale, query.norm, row);
  }
  // The same for several rows; replaces the contents of `out`.
  void distances(const Query& query, std::span<const uint32_t> rows, std::vector<float>& out) const;
  float between(size_t a, size_t b) const;
  void prefetch(size_t row) const {
    const char* at = type_ == VectorType::kF32
                         ? reinterpret_cast<const char*>(f32_.data() + static_cast<int64_t>(row) * width_)
                         : reinterpret_cast<const char*>(int8_.data() + static_cast<int64_t>(row) * width_);
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
  }
  double score(float distance) const { return -static_cast<double>(distance); }

 private:
  float int8_distance(const int8_t* values, float scale, float norm, size_t row) const;

  int64_t width_;
  VectorType type_;
  Similarity similarity_;
  size_t size_ = 0;
  std::vector<float> f32_;
  std::vector<int8_t> int8_;
  std::vector<float> scales_, norms_;
};

}  // namespace makar
