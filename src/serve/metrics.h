// Counters for Prometheus.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "serve/engine_loop.h"

namespace makar {

class ServeMetrics {
 public:
  void request(const std::string& route, int status, double seconds);
  void first_token(double seconds);
  // Adds tokens as they are processed.
  void tokens(int64_t prompt, int64_t written) { prompt_tokens_ += prompt, written_tokens_ += written; }

  std::pair<int64_t, int64_t> tokens_so_far() const { return {prompt_tokens_, written_tokens_}; }

  // In the Prometheus text format. `inside`: admitted requests in flight.
  std::string text(const EngineState& engine, int64_t inside) const;

 private:
  struct Histogram {
    static constexpr std::array<double, 12> kBounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                       1,    2.5,   5,    10,  30,   60};
    std::array<int64_t, 13> counts{};
    double sum = 0;
    void add(double value);
    std::string text(const std::string& name, const std::string& help) const;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  Histogram latency_, first_;
  std::atomic<int64_t> prompt_tokens_{0}, written_tokens_{0};
};

}  // namespace makar
