#include "base/work_budget.h"

#include <algorithm>

namespace makar {

bool WorkBudget::check() {
  if (stop_ == Stop::kNone) {
    if (cancelled_ && *cancelled_)
      stop_ = Stop::kCancelled;
    else if (spent_ > units_)
      stop_ = Stop::kWork;
    else if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_)
      stop_ = Stop::kTime;
  }
  if (parent_) {
    parent_->spent_ += spent_ - counted_in_parent_;
    counted_in_parent_ = spent_;
    if (!parent_->check() && stop_ == Stop::kNone) stop_ = parent_->stop_;
  }
  // After a stop, every spend() calls check(). Otherwise the next check comes after kCheckEvery units or at
  // the limit, whichever is first.
  next_check_ = stop_ != Stop::kNone ? 0 : spent_ + std::min(kCheckEvery, units_ - spent_) + 1;
  return stop_ == Stop::kNone;
}

Error WorkBudget::error(const std::string& place) const {
  switch (stop_) {
    case Stop::kCancelled:
      return error_of(Error::Kind::kLimit, place, "the client disconnected");
    case Stop::kTime:
      return error_of(Error::Kind::kLimit, place, "the input was not processed in time; make it smaller");
    default:
      return error_of(Error::Kind::kLimit, place, "needs more than {} units of work; make it smaller",
                      units_);
  }
}

}  // namespace makar
