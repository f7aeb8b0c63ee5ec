// Times competitors in alternating rounds, so that noise affects all of them alike; batches in which threads
// of this process waited for a core are discarded.
#pragma once
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace makar::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of this process in seconds: the cost of a single-threaded call independent of other load.
inline double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const double at = q * static_cast<double>(v.size() - 1);
  const size_t low = static_cast<size_t>(at), high = std::min(low + 1, v.size() - 1);
  return v[low] + (v[high] - v[low]) * (at - static_cast<double>(low));
}
inline double median(const std::vector<double>& v) { return quantile(v, 0.5); }
// Half the interquartile range, relative to the median.
inline double spread(const std::vector<double>& v) {
  return (quantile(v, 0.75) - quantile(v, 0.25)) / 2 / median(v);
}

// Seconds that runnable threads of this process have waited for a core (Linux; 0 elsewhere).
inline double waited_for_cores() {
  double sum = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    double ran = 0, waited = 0;
    if (file >> ran >> waited) sum += waited * 1e-9;
  }
  return sum;
}

// On a shared machine: waits until the cores are nearly idle, at most `patience` seconds in total.
inline void wait_for_quiet(double& patience) {
  const auto read = [](double& idle, double& all) {
    std::ifstream file("/proc/stat");
    std::string label;
    file >> label;
    idle = all = 0;
    double value = 0;
    for (int field = 0; field < 8 && file >> value; ++field)
      all += value, idle += field == 3 || field == 4 ? value : 0;
  };
  while (patience > 0) {
    double idle0, all0, idle1, all1;
    read(idle0, all0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    read(idle1, all1);
    if (all1 <= all0 || (idle1 - idle0) >= 0.9 * (all1 - all0)) return;
    patience -= 0.1;
  }
}

struct Times {
  std::vector<double> seconds_per_call;  // seconds per call, one value per batch
  bool quiet = true;  // false when there were too few undisturbed batches and all were kept
};

// A batch repeats a call for at least batch_s. Runs until every competitor has `rounds` undisturbed batches,
// for at most three times as many rounds. cpu_time: for single-threaded calls.
inline std::vector<Times> interleave(const std::vector<std::function<void()>>& calls, int rounds,
                                     double batch_s, double patience = 0, bool cpu_time = false) {
  const auto clock = [&] { return cpu_time ? cpu_seconds() : seconds(); };
  std::vector<std::vector<double>> all(calls.size()), quiet(calls.size());
  std::vector<long> repeats(calls.size(), 1);
  const auto enough = [&] {
    return std::all_of(quiet.begin(), quiet.end(),
                       [&](const auto& q) { return static_cast<int>(q.size()) >= rounds; });
  };
  for (int round = -1; round < rounds * 3 && !enough();
       ++round) {  // round -1 is the warm-up and sizes the batches
    wait_for_quiet(patience);
    for (size_t i = 0; i < calls.size(); ++i) {
      // Wait until the idle threads of the other competitors sleep.
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      for (const double end = clock() + batch_s / 4; clock() < end;) calls[i]();
      const double waited = waited_for_cores(), begin = clock();
      long done = 0;
      do {
        for (long r = 0; r < repeats[i]; ++r) calls[i]();
        done += repeats[i];
      } while (round < 0 && clock() - begin < batch_s);
      const double took = clock() - begin, seconds_per_call = took / static_cast<double>(done);
      if (round < 0) {
        repeats[i] = std::max(1L, static_cast<long>(batch_s / seconds_per_call));
        continue;
      }
      all[i].push_back(seconds_per_call);
      if (cpu_time || waited_for_cores() - waited < took * 0.01) quiet[i].push_back(seconds_per_call);
    }
  }
  std::vector<Times> times;
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool enough_quiet = quiet[i].size() >= 3;
    times.push_back({enough_quiet ? quiet[i] : all[i], enough_quiet});
  }
  return times;
}

}  // namespace makar::bench
