// What every op is handed: the threads, the tape or none, and the place in the run that random numbers hang
// on.
#pragma once
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "ops/tape.h"

namespace makar {

// Sees what every matrix of weights is multiplied with: x [rows, in] of w [out, in].
struct LinearObserver {
  virtual ~LinearObserver() = default;
  virtual void see(const Tensor& w, const Tensor& x) = 0;
};

struct Context {
  ThreadPool& pool;
  Tape* tape = nullptr;
  bool training = false;  // dropout is on
  uint64_t seed = 0, step = 0;
  uint64_t stream = 0;  // one for each dropout site, in call order; reset with each forward
  LinearObserver* observer = nullptr;
  // Which of the adapters that layers offer each row takes, -1 for none; empty: no row takes any. Whoever
  // gathers rows gathers these too.
  std::span<const int32_t> row_adapters = {};

  bool needs(const Key& t) const { return tape && tape->needs(t); }
  template <class... T>
  bool any_needs(const T&... t) const {
    return tape && (tape->needs(t) || ...);
  }
};

}  // namespace makar
