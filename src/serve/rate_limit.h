// Rate limits per caller and minute: requests, and prompt plus generated tokens. The allowance of a caller
// refills evenly. A request is deducted when it arrives, its tokens when it ends, so a long answer may leave
// a negative balance that has to refill first.
#pragma once
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "serve/api/api_error.h"

namespace makar {

class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    int64_t requests = 0, tokens = 0;  // per minute; 0: no limit
  };
  explicit RateLimit(Limits limits) : limits_(limits) {}

  // Deducts one request from the caller's allowance, or returns the error.
  std::optional<ApiError> take(const std::string& caller, Clock::time_point now = Clock::now());
  void charge(const std::string& caller, int64_t tokens, Clock::time_point now = Clock::now());
  // OpenAI's headers: x-ratelimit-limit-requests and so on.
  HttpHeaders headers(const std::string& caller, Clock::time_point now = Clock::now());

 private:
  struct Allowance {
    double requests, tokens;
    Clock::time_point at;  // of the last refill
  };
  Allowance& allowance(const std::string& caller, Clock::time_point now);
  void fill(Allowance& allowance, Clock::time_point now) const;
  void evict_callers(Clock::time_point now);
  bool any() const { return limits_.requests > 0 || limits_.tokens > 0; }

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, Allowance> callers_;
};

}  // namespace makar
