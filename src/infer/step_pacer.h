// Limits the prefill rows of a step so that the step meets its target duration: decoding sequences wait no
// longer than that for their next token. The cost of a row is measured, because it depends on the model, the
// machine, the context and other load. The number of rows does not change a bit of any result.
#pragma once
#include <algorithm>
#include <cstdint>

namespace makar {

class StepPacer {
 public:
  static constexpr int64_t kFirstRows = 32;  // before the first measurement
  static constexpr int64_t kLeastRows = 8;   // fewer rows do not amortise reading the weights

  int64_t rows_within(double seconds) const {
    if (row_seconds_ <= 0) return kFirstRows;
    const double rows = seconds / row_seconds_;
    return rows >= 1e9 ? int64_t{1'000'000'000} : std::max(static_cast<int64_t>(rows), kLeastRows);
  }
  // Records a step of `rows` rows. A slower measurement counts in full, a faster one only half: one overlong
  // step stalls every stream.
  void computed(int64_t rows, double seconds) {
    if (rows < kLeastRows) return;
    const double now = seconds / static_cast<double>(rows);
    row_seconds_ = now >= row_seconds_ ? now : (row_seconds_ + now) / 2;
  }

 private:
  double row_seconds_ = 0;
};

}  // namespace makar
