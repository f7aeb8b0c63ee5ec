#include "kernels/cpu/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

namespace makar::kernels {
namespace {

constexpr int64_t kPeakLoops = 20000, kStreamBytes = int64_t{256} << 20;

// The best rate of several rounds; work() returns the amount of work that it did.
double best_rate(int rounds, const std::function<double()>& work) {
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double amount = work();
    best = std::max(best,
                    amount / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

void MemoryStream::operator()() const {
  const int64_t threads = pool_.threads(), each = data_.count() / threads;
  pool_.run(threads, [&](int64_t t) {
    volatile float sink = cpu().sum(data_.f32() + t * each, each);
    static_cast<void>(sink);
  });
}

double run_peak(ThreadPool& pool, double (*peak)(int64_t loops)) {
  std::vector<double> operations(static_cast<size_t>(pool.threads()));
  pool.run(pool.threads(), [&](int64_t t) { operations[static_cast<size_t>(t)] = peak(kPeakLoops); });
  double total = 0;
  for (const double d : operations) total += d;
  return total;
}

MachineLimits measure_limits(ThreadPool& pool) {
  MachineLimits out;
  const MemoryStream stream(pool, kStreamBytes);
  out.bytes_per_second = best_rate(6, [&] { return stream(), static_cast<double>(stream.bytes()); });
  out.f32_operations_per_second = best_rate(100, [&] { return run_peak(pool, cpu().peak_f32); });
  if (cpu().peak_int8)
    out.int8_operations_per_second = best_rate(100, [&] { return run_peak(pool, cpu().peak_int8); });
  return out;
}

}  // namespace makar::kernels
