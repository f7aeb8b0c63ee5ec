// Counters for Prometheus.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/price_table.h"
#include "serve/engine_loop.h"

namespace makar {

class ServeMetrics {
 public:
  void request(const std::string& route, int status, double seconds);
  void first_token(double seconds);
  // Adds tokens as they are processed.
  void tokens(int64_t prompt, int64_t generated) { prompt_tokens_ += prompt, generated_tokens_ += generated; }

  // `seconds` returns the computing time of all engines so far. Prices must be set before the first request.
  void set_prices(const PriceTable& prices, std::function<double()> seconds) {
    prices_ = prices, seconds_ = std::move(seconds);
  }
  const std::optional<PriceTable>& prices() const { return prices_; }
  // The cost of a request: the price of its tokens, plus the price of the time they take if each takes the
  // engines' mean time per token so far.
  Cost price(int64_t prompt, int64_t generated) const;
  void charge(const std::string& caller, const Cost& cost);
  // The costs so far, of one caller or of all.
  Cost charged(const std::optional<std::string>& caller) const;

  std::pair<int64_t, int64_t> tokens_so_far() const { return {prompt_tokens_, generated_tokens_}; }

  // In the Prometheus text format. `in_flight`: admitted requests in flight. `caller`: whose costs are shown;
  // all if not set.
  std::string text(const EngineState& engine, int64_t in_flight,
                   const std::optional<std::string>& caller = std::nullopt) const;

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
  static constexpr size_t kMaxCallers =
      10000;  // listed separately; the costs of further callers are added up as "other"
  Histogram latency_, first_token_seconds_;
  std::optional<PriceTable> prices_;
  std::function<double()> seconds_;
  std::map<std::string, Cost> costs_;  // by caller
  std::atomic<int64_t> prompt_tokens_{0}, generated_tokens_{0};
};

}  // namespace makar
