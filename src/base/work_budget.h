// Limits the work that one input may cause. Parsers, compilers, template rendering and tokenization count
// what they do; the limit, a deadline and the client's disconnection all end the work the same way. Only the
// count is deterministic: the same input stops at the same place on every machine.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>

#include "base/error.h"

namespace makar {

class WorkBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using CancelFlag = std::shared_ptr<const std::atomic<bool>>;
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  WorkBudget() = default;  // without a limit
  explicit WorkBudget(int64_t units, Clock::time_point deadline = Clock::time_point::max(),
                      CancelFlag cancelled = nullptr)
      : units_(units),
        next_check_(first_check(units)),
        deadline_(deadline),
        cancelled_(std::move(cancelled)) {}
  // A smaller budget inside `parent`: its work counts in both. `parent` may be null and must outlive it.
  WorkBudget(int64_t units, WorkBudget* parent)
      : units_(units), next_check_(first_check(units)), parent_(parent) {}

  // Counts `units` of work; a unit is about a node created, an item compared or 64 bytes read (10 to 100 ns).
  // False: the work must stop and return error(). It stays false.
  [[nodiscard]] bool spend(int64_t units = 1) {
    spent_ += units;
    return spent_ < next_check_ || check();
  }
  // Checks the clock and the cancel flag now: call it before and after work that cannot be counted.
  [[nodiscard]] bool check();
  bool stopped() const { return stop_ != Stop::kNone; }
  int64_t spent() const { return spent_; }
  // Why it stopped. `place`: the field or file that was processed.
  Error error(const std::string& place) const;

 private:
  enum class Stop { kNone, kWork, kTime, kCancelled };
  static constexpr int64_t kCheckEvery = 1 << 12;  // units between checks of the clock
  static int64_t first_check(int64_t units) { return units < kCheckEvery ? units + 1 : kCheckEvery; }

  int64_t units_ = kUnlimited, spent_ = 0, next_check_ = kCheckEvery;
  int64_t counted_in_parent_ = 0;  // the part of spent_ that is counted in parent_ already
  Clock::time_point deadline_ = Clock::time_point::max();
  CancelFlag cancelled_;
  WorkBudget* parent_ = nullptr;
  Stop stop_ = Stop::kNone;
};

}  // namespace makar
