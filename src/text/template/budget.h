// Resource limits of a rendering. Work is counted, not timed, so the same template and data stop at the same
// point on every machine; CPU time is only a last resort.
#pragma once
#include <cstdint>
#include <ctime>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/work_budget.h"

namespace makar::jinja {

struct Limits {
  int64_t max_work = 400'000;  // evaluated nodes, plus one per 64 bytes processed by string operations
  int64_t max_memory_bytes = 1 << 20;        // live values and output
  int64_t max_output_bytes = 1 << 20;        // the rendering
  int64_t max_cpu_ms = 45;                   // CPU time of the rendering thread
  int max_depth = 96;                        // nested macro calls, blocks and captures
  size_t max_stack_bytes = size_t{1} << 20;  // call stack for parsing or rendering
  int64_t max_template_bytes = 128 << 10;
  int max_nodes = 8'000;  // expressions, and statements; four times as many tokens
  int max_nesting = 100;  // of expressions and blocks in the source
  // Added to the limits per byte of messages, tools and documents, so that long conversations fit.
  int64_t work_per_byte = 8, memory_per_byte = 24, output_per_byte = 8;
  double cpu_ms_per_kib = 0.5;
};

// Thrown by the interpreter; converted to an Error at the boundary (ChatTemplate).
struct Failure : std::runtime_error {
  Failure(Error::Kind k, const std::string& what, int l = 0, int c = 0)
      : std::runtime_error(what), kind(k), line(l), column(c) {}
  Error::Kind kind;
  int line, column;  // 0: unknown; set by the node being evaluated
};

[[noreturn]] inline void fail(const std::string& what) { throw Failure(Error::Kind::kInvalid, what); }
[[noreturn]] inline void fail_limit(const std::string& what) { throw Failure(Error::Kind::kLimit, what); }

class Budget {
 public:
  // `request`: the work budget of the whole request; null: no further limit.
  Budget(const Limits& limits, int64_t input_bytes, WorkBudget* request = nullptr)
      : work_(limits.max_work + input_bytes * limits.work_per_byte),
        memory_(limits.max_memory_bytes + input_bytes * limits.memory_per_byte),
        output_(limits.max_output_bytes + input_bytes * limits.output_per_byte),
        cpu_ms_(static_cast<double>(limits.max_cpu_ms) +
                static_cast<double>(input_bytes >> 10) * limits.cpu_ms_per_kib),
        start_(now_ms()),
        request_(request) {}

  void spend(int64_t work = 1) {
    work_ -= work;
    if (work_ < 0) fail_limit("the template exceeded its work limit; is a loop endless or very long?");
    if ((work_since_check_ += work) > kWorkPerCheck) {
      const int64_t counted = std::exchange(work_since_check_, 0);
      if (request_ && !request_->spend(counted)) fail_limit(request_->error("").message);
      if (now_ms() - start_ > cpu_ms_) fail_limit("the template exceeded its limit of CPU time");
    }
  }
  // Charges the work of processing `bytes` of text.
  void touch(size_t bytes) { spend(1 + static_cast<int64_t>(bytes >> 6)); }

  // Counts bytes that are allocated, and bytes that are freed.
  void allocate(size_t bytes) {
    live_bytes_ += static_cast<int64_t>(bytes);
    if (live_bytes_ > memory_) {
      live_bytes_ -= static_cast<int64_t>(bytes);
      fail_limit("the template uses more memory than its limit");
    }
  }
  void release(size_t bytes) { live_bytes_ -= static_cast<int64_t>(bytes); }
  // Fails before an allocation of `bytes` that would exceed the budget.
  void check_allocation(size_t bytes) const {
    if (bytes > static_cast<size_t>(memory_) || live_bytes_ + static_cast<int64_t>(bytes) > memory_)
      fail_limit("the template uses more memory than its limit");
  }
  void check_output(size_t bytes) const {
    if (static_cast<int64_t>(bytes) > output_) fail_limit("the rendering is longer than its limit");
  }

 private:
  static double now_ms() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
  }
  static constexpr int64_t kWorkPerCheck = 4096;  // between checks of the clock and the request
  int64_t work_, memory_, output_, live_bytes_ = 0, work_since_check_ = 0;
  double cpu_ms_, start_;
  WorkBudget* request_;
};

}  // namespace makar::jinja
