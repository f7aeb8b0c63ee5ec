#include "serve/rate_limit.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

constexpr size_t kMaxCallers = 10000;

// Seconds to refill `missing` units at `limit` per minute.
int seconds_for(double missing, int64_t limit) {
  const double seconds = std::ceil(missing * 60 / static_cast<double>(limit));
  return static_cast<int>(std::clamp(seconds, 0.0, 1e6));
}

ApiError exceeded(const char* what, int64_t limit, int wait) {
  ApiError error{429, fmt::format("the limit is {} {} per minute; try again in {} s", limit, what, wait),
                 what, std::nullopt, "rate_limit_exceeded"};
  error.retry_after = wait;
  return error;
}

}  // namespace

void RateLimit::fill(Allowance& a, Clock::time_point now) const {
  const double minutes = std::max(0.0, std::chrono::duration<double>(now - a.at).count()) / 60;
  const auto requests = static_cast<double>(limits_.requests), tokens = static_cast<double>(limits_.tokens);
  a.requests = std::min(requests, a.requests + requests * minutes);
  a.tokens = std::min(tokens, a.tokens + tokens * minutes);
  a.at = std::max(a.at, now);
}

// Drops callers with a full allowance: they are treated like new callers.
void RateLimit::evict_callers(Clock::time_point now) {
  std::erase_if(callers_, [&](const auto& entry) {
    Allowance a = entry.second;
    fill(a, now);
    return a.requests >= static_cast<double>(limits_.requests) &&
           a.tokens >= static_cast<double>(limits_.tokens);
  });
  if (callers_.size() >= kMaxCallers) callers_.erase(callers_.begin());
}

RateLimit::Allowance& RateLimit::allowance(const std::string& caller, Clock::time_point now) {
  if (callers_.size() >= kMaxCallers && !callers_.contains(caller)) evict_callers(now);
  const Allowance full{static_cast<double>(limits_.requests), static_cast<double>(limits_.tokens), now};
  Allowance& a = callers_.try_emplace(caller, full).first->second;
  fill(a, now);
  return a;
}

std::optional<ApiError> RateLimit::take(const std::string& caller, Clock::time_point now) {
  if (!any()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Allowance& a = allowance(caller, now);
  if (limits_.tokens > 0 && a.tokens < 1)
    return exceeded("tokens", limits_.tokens, std::max(1, seconds_for(1 - a.tokens, limits_.tokens)));
  if (limits_.requests > 0) {
    if (a.requests < 1)
      return exceeded("requests", limits_.requests,
                      std::max(1, seconds_for(1 - a.requests, limits_.requests)));
    a.requests -= 1;
  }
  return std::nullopt;
}

void RateLimit::charge(const std::string& caller, int64_t tokens, Clock::time_point now) {
  if (limits_.tokens <= 0) return;
  const std::lock_guard lock(mutex_);
  allowance(caller, now).tokens -= static_cast<double>(tokens);
}

HttpHeaders RateLimit::headers(const std::string& caller, Clock::time_point now) {
  HttpHeaders out;
  if (!any()) return out;
  const std::lock_guard lock(mutex_);
  const Allowance& a = allowance(caller, now);
  const auto add_headers = [&](const char* what, int64_t limit, double remaining) {
    if (limit <= 0) return;
    const auto name = [&](const char* kind) { return fmt::format("x-ratelimit-{}-{}", kind, what); };
    out.emplace_back(name("limit"), std::to_string(limit));
    out.emplace_back(name("remaining"), std::to_string(static_cast<int64_t>(std::max(0.0, remaining))));
    out.emplace_back(name("reset"),
                     fmt::format("{}s", seconds_for(static_cast<double>(limit) - remaining, limit)));
  };
  add_headers("requests", limits_.requests, a.requests);
  add_headers("tokens", limits_.tokens, a.tokens);
  return out;
}

}  // namespace makar
