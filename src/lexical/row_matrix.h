// Rows of floats for models of words, and two ways to update them: in place, or in private copies whose
// changes are added in a fixed order. Rows are padded with zeros to a multiple of 16, and sums run in 16
// lanes, so the bits do not depend on the instruction set.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"

namespace makar {

constexpr size_t kLanes = 16;
inline size_t padded(size_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

inline float dot(const float* a, const float* b, size_t n) {
  float lane[kLanes] = {};
  for (size_t i = 0; i < n; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) lane[j] += a[i + j] * b[i + j];
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}
inline void add_scaled(float* to, float scale, const float* from, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] += scale * from[i];
}

class RowMatrix {
 public:
  RowMatrix() = default;
  RowMatrix(size_t rows, size_t stride) : rows_(rows), stride_(stride), data_(rows * stride, 0.0f) {
    check(stride % kLanes == 0, "rows are padded");
  }
  // Adds a row of `width` numbers at the end.
  void add_row(const float* values, size_t width) {
    data_.resize(data_.size() + stride_, 0.0f);
    std::memcpy(row(rows_++), values, width * sizeof(float));
  }
  float* row(size_t at) { return data_.data() + at * stride_; }
  const float* row(size_t at) const { return data_.data() + at * stride_; }
  size_t rows() const { return rows_; }
  size_t stride() const { return stride_; }

 private:
  size_t rows_ = 0, stride_ = 0;
  std::vector<float> data_;
};

// Updates in place, also from several threads at once without locks (Hogwild: Niu et al., 2011): the fast
// mode.
class SharedRows {
 public:
  explicit SharedRows(RowMatrix& matrix) : matrix_(matrix) {}
  float* row(uint32_t at) { return matrix_.row(at); }

 private:
  RowMatrix& matrix_;
};

// How often the chunks of a round used a row, and how many chunks did.
struct RowUses {
  uint32_t uses = 0, chunks = 0;
};

// Copies a row when it is first used. One object per chunk of work that runs against the same state.
class PrivateRows {
 public:
  explicit PrivateRows(const RowMatrix& matrix) : matrix_(matrix), slots_(matrix.rows(), kNone) {}
  float* row(uint32_t at) {
    if (slots_[at] == kNone) copy(at);
    ++uses_[slots_[at]];
    return row_copy(slots_[at]);
  }
  // Replaces each copy by its difference from the matrix, which must not have changed meanwhile.
  void finish();
  // For rows with at % parts == part: counts the uses of a row by all chunks, then adds this chunk's change
  // times share_of(its uses).
  void count_uses(std::vector<RowUses>& uses, uint32_t part, uint32_t parts) const;
  void add_to(RowMatrix& matrix, const std::vector<RowUses>& uses, float step, uint32_t part, uint32_t parts);
  void reset_uses(std::vector<RowUses>& uses, uint32_t part, uint32_t parts) const;
  void clear();

 private:
  static constexpr uint32_t kNone = ~uint32_t{0}, kBlockRows = 64;
  void copy(uint32_t at);
  float* row_copy(uint32_t slot) {
    return blocks_[slot / kBlockRows].get() + (slot % kBlockRows) * matrix_.stride();
  }
  const RowMatrix& matrix_;
  std::vector<uint32_t> slots_, used_rows_, uses_;
  std::vector<std::unique_ptr<float[]>> blocks_;
};

// The factor on the sum of the changes of a row. Chunks that use a row rarely make different small steps, and
// their sum is right; chunks that use it often all move it close to the same optimum, and their sum would
// overshoot. Assume that x uses move a row the share s x / (1 + s x) of the way to its optimum, s being
// `step`. The factor is that share for the x uses of all m chunks in sequence, divided by the sum of the
// shares of the m chunks: (1 + s x / m) / (1 + s x).
inline float share_of(const RowUses& u, float step) {
  const float total_step = step * static_cast<float>(u.uses);
  return (1 + total_step / static_cast<float>(u.chunks)) / (1 + total_step);
}

// Adds the changes of the first `count` chunks to a matrix, in order; `rows` returns the private rows of a
// chunk. Only for rows with at % parts == part.
template <class Chunks, class RowsOf>
void add_changes(const Chunks& chunks, size_t count, const RowsOf& rows, RowMatrix& matrix,
                 std::vector<RowUses>& uses, float step, uint32_t part, uint32_t parts) {
  for (size_t i = 0; i < count; ++i) rows(*chunks[i]).count_uses(uses, part, parts);
  for (size_t i = 0; i < count; ++i) rows(*chunks[i]).add_to(matrix, uses, step, part, parts);
  for (size_t i = 0; i < count; ++i) rows(*chunks[i]).reset_uses(uses, part, parts);
}

}  // namespace makar
