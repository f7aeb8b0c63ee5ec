// Competitors timed in turn, round after round, so that a noisy machine disturbs all of them alike.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace makar::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const double at = q * static_cast<double>(v.size() - 1);
  const size_t low = static_cast<size_t>(at), high = std::min(low + 1, v.size() - 1);
  return v[low] + (v[high] - v[low]) * (at - static_cast<double>(low));
}
inline double median(const std::vector<double>& v) { return quantile(v, 0.5); }

// times[competitor][round]: seconds a call. A batch repeats the call for at least batch_s.
inline std::vector<std::vector<double>> interleave(const std::vector<std::function<void()>>& calls, int rounds,
                                                   double batch_s) {
  std::vector<std::vector<double>> times(calls.size());
  std::vector<long> repeats(calls.size(), 1);
  for (int round = -1; round < rounds; ++round)  // round -1 warms up and sizes the batches
    for (size_t i = 0; i < calls.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // let the others' threads fall asleep
      calls[i]();
      const double begin = seconds();
      long done = 0;
      do {
        for (long r = 0; r < repeats[i]; ++r) calls[i]();
        done += repeats[i];
      } while (round < 0 && seconds() - begin < batch_s);
      const double each = (seconds() - begin) / static_cast<double>(done);
      if (round < 0) repeats[i] = std::max(1L, static_cast<long>(batch_s / each));
      else times[i].push_back(each);
    }
  return times;
}

}  // namespace makar::bench
