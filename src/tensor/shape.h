// A shape: up to six dimensions, row-major, without allocation.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace makar {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    check(dims.size() <= kMaxRank, "a shape has at most 6 dimensions");
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }

  int rank() const { return rank_; }
  // Negative indices count from the back.
  int64_t operator[](int i) const { return dims_[at(i)]; }
  int64_t& operator[](int i) { return dims_[at(i)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  int64_t count() const {
    int64_t n = 1;
    for (const int64_t d : *this) n *= d;
    return n;
  }
  bool operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  std::string text() const;  // "[2, 17, 64]"

 private:
  int at(int i) const {
    if (i < 0) i += rank_;
    check(i >= 0 && i < rank_, "dimension out of range");
    return i;
  }
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace makar
