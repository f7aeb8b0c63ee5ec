// What every op is handed: the threads, the tape or none, and the place in the run that random numbers hang
// on.
#pragma once
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/tape.h"

namespace makar {

struct Context {
  ThreadPool& pool;
  Tape* tape = nullptr;
  bool training = false;  // dropout is on
  uint64_t seed = 0, step = 0;
  uint64_t stream = 0;  // one for each dropout site, in call order; reset with each forward

  bool needs(const Key& t) const { return tape && tape->needs(t); }
  template <class... T>
  bool any_needs(const T&... t) const {
    return tape && (tape->needs(t) || ...);
  }
};

}  // namespace makar
