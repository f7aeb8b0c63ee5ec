// How much each caller may ask for a minute: requests, and tokens read and written. A caller's allowance
// fills up evenly; a request is taken from it when it comes, its tokens when it is over, so that one long
// answer may leave a debt that has to be waited off.
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
    int64_t requests = 0, tokens = 0;  // a minute; 0: no limit
  };
  explicit RateLimit(Limits limits) : limits_(limits) {}

  // Takes one request of a caller, or says why not.
  std::optional<ApiError> take(const std::string& caller, Clock::time_point now = Clock::now());
  void charge(const std::string& caller, int64_t tokens, Clock::time_point now = Clock::now());
  // x-ratelimit-limit-requests and so on, under OpenAI's names.
  HttpHeaders headers(const std::string& caller, Clock::time_point now = Clock::now());

 private:
  struct Allowance {
    double requests, tokens;
    Clock::time_point at;
  };
  Allowance& allowance(const std::string& caller, Clock::time_point now);
  void fill(Allowance& allowance, Clock::time_point now) const;
  void forget_some(Clock::time_point now);
  bool any() const { return limits_.requests > 0 || limits_.tokens > 0; }

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, Allowance> callers_;
};

}  // namespace makar
