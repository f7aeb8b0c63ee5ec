// What the machine itself can do, measured in the same run as what is compared with it: bytes a second from
// memory, one sequential stream a thread, and 8-bit multiply-adds a second.
#pragma once
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace makar::bench {

// Reads the buffer once, a slice for each thread.
class Stream {
 public:
  Stream(ThreadPool& pool, int64_t bytes)
      : pool_(pool), data_(Tensor::zeros({bytes / 8}, DType::kI64)), sums_(pool.threads() * 8) {}
  int64_t bytes() const { return data_.count() * 8; }
  void operator()() {
    const int64_t threads = pool_.threads(), each = data_.count() / threads / 32 * 32;
    pool_.run(threads, [&](int64_t t) {
      const int64_t* p = data_.i64() + t * each;
      int64_t sum[16] = {};
      for (int64_t i = 0; i < each; i += 16)
        for (int j = 0; j < 16; ++j) sum[j] += p[i + j];
      for (const int64_t s : sum) sums_[static_cast<size_t>(t * 8)] += s;
    });
  }

 private:
  ThreadPool& pool_;
  Tensor data_;
  std::vector<int64_t> sums_;
};

// Multiply-adds of bytes with nothing else to do, counted as two operations each; 0 where none are known.
constexpr int64_t kPeakLoops = 20000;
#if defined(__aarch64__)
constexpr double kPeakOperations = 2.0 * 16 * 16 * kPeakLoops;
inline void peak_dots() {
  for (int64_t i = 0; i < kPeakLoops; ++i)
    asm volatile(
        "sdot v0.4s, v16.16b, v17.16b\n sdot v1.4s, v16.16b, v17.16b\n"
        "sdot v2.4s, v16.16b, v17.16b\n sdot v3.4s, v16.16b, v17.16b\n"
        "sdot v4.4s, v16.16b, v17.16b\n sdot v5.4s, v16.16b, v17.16b\n"
        "sdot v6.4s, v16.16b, v17.16b\n sdot v7.4s, v16.16b, v17.16b\n"
        "sdot v20.4s, v16.16b, v17.16b\n sdot v21.4s, v16.16b, v17.16b\n"
        "sdot v22.4s, v16.16b, v17.16b\n sdot v23.4s, v16.16b, v17.16b\n"
        "sdot v24.4s, v16.16b, v17.16b\n sdot v25.4s, v16.16b, v17.16b\n"
        "sdot v26.4s, v16.16b, v17.16b\n sdot v27.4s, v16.16b, v17.16b\n" ::
            : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
              "v27");
}
#else
constexpr double kPeakOperations = 0;
inline void peak_dots() {}
#endif

}  // namespace makar::bench
