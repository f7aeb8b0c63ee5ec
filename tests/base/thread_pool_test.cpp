#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace makar {
namespace {

TEST(ThreadPool, RunsEachIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> hits(round);
      pool.run(round, [&](int64_t i) { hits[i].fetch_add(1); });
      for (const auto& h : hits) EXPECT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPool, RangesCoverAll) {
  ThreadPool pool(3);
  std::vector<int> seen(1000);
  pool.for_ranges(1000, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[i];
  });
  for (const int s : seen) EXPECT_EQ(s, 1);
}

TEST(ThreadPool, RethrowsAndSurvives) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run(64,
                        [](int64_t i) {
                          if (i == 33) throw std::runtime_error("x");
                        }),
               std::runtime_error);
  std::atomic<int> count{0};
  pool.run(64, [&](int64_t) { ++count; });
  EXPECT_EQ(count.load(), 64);
}

// The thread that takes the first index blocks in it until all other indices are done, including the rest of
// its own range.
TEST(ThreadPool, IdleThreadsStealFromASlowOne) {
  for (const int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    constexpr int kCount = 60;
    std::atomic<int> others{0};
    pool.run(kCount, [&](int64_t i) {
      if (i > 0)
        ++others;
      else
        while (others.load() < kCount - 1) std::this_thread::yield();
    });
    EXPECT_EQ(others.load(), kCount - 1);
  }
}

TEST(ThreadPool, NestedRegionRunsInline) {
  ThreadPool pool(2);
  std::atomic<int> count{0};
  pool.run(4, [&](int64_t) { pool.run(4, [&](int64_t) { ++count; }); });
  EXPECT_EQ(count.load(), 16);
}

}  // namespace
}  // namespace makar
