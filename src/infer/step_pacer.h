// Limits the prefill rows of a step so that the step meets its target duration: decoding sequences wait no
// longer than that for their next token. The costs of a row and of its logits are measured, because they
// depend on the model, the machine, the context and other load. Results do not depend on the number of rows.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace makar {

class StepPacer {
 public:
  static constexpr int64_t kFirstRows = 32;  // before the first measurement
  static constexpr int64_t kMinRows = 8;     // fewer rows do not amortise reading the weights

  // The remaining budget for the prefill of a step.
  struct Budget {
    int64_t rows = 0;
    double seconds = std::numeric_limits<double>::infinity();
    bool empty() const { return rows <= 0 || seconds <= 0; }
  };

  // At most `rows` rows within `seconds`, but at least kMinRows.
  Budget budget(int64_t rows, double seconds) const {
    if (row_seconds_ <= 0) rows = std::min(rows, kFirstRows);
    return {rows, std::max(seconds, static_cast<double>(kMinRows) * row_seconds_)};
  }
  // How many of `count` rows fit. The first `without_logits` rows need no logits.
  int64_t rows_within(const Budget& budget, int64_t count, int64_t without_logits) const {
    count = std::min(count, budget.rows);
    without_logits = std::min(without_logits, count);
    if (std::isinf(budget.seconds)) return count;
    if (logit_seconds_ <= 0) count = std::min(count, without_logits + kFirstRows);
    const double affordable_rows = row_seconds_ > 0 ? budget.seconds / row_seconds_ : 1e9;
    if (affordable_rows < static_cast<double>(without_logits))
      return std::max<int64_t>(static_cast<int64_t>(affordable_rows), 1);
    const double row_and_logit_seconds = row_seconds_ + logit_seconds_;
    if (row_and_logit_seconds <= 0) return count;
    const double left = budget.seconds - static_cast<double>(without_logits) * row_seconds_;
    return std::min(
        count, without_logits + static_cast<int64_t>(std::min(std::ceil(left / row_and_logit_seconds), 1e9)));
  }
  void take(Budget& budget, int64_t rows, int64_t logit_rows) const {
    budget.rows -= rows;
    budget.seconds -=
        static_cast<double>(rows) * row_seconds_ + static_cast<double>(logit_rows) * logit_seconds_;
  }

  // Records a step: the time of its rows, and of the logits of some of them.
  void computed(int64_t rows, double seconds, int64_t logit_rows, double logit_seconds) {
    if (rows >= kMinRows) update(row_seconds_, seconds / static_cast<double>(rows));
    if (logit_rows > 0) update(logit_seconds_, logit_seconds / static_cast<double>(logit_rows));
  }

 private:
  // A slower measurement counts in full, a faster one only half: one overlong step stalls every stream.
  static void update(double& estimate, double measured) {
    estimate = measured >= estimate ? measured : (estimate + measured) / 2;
  }

  double row_seconds_ = 0, logit_seconds_ = 0;  // 0: not measured yet
};

}  // namespace makar
