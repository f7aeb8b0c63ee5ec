#include "serve/metrics.h"

namespace makar {
namespace {

// A label's value: quotes and backslashes are escaped, line breaks become spaces.
std::string label_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

void ServeMetrics::Histogram::add(double value) {
  size_t i = 0;
  while (i < kBounds.size() && value > kBounds[i]) ++i;
  ++counts[i];
  sum += value;
}

std::string ServeMetrics::Histogram::text(const std::string& name, const std::string& help) const {
  std::string out = fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  int64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    const std::string bound = i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf";
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bound, total);
  }
  return out + fmt::format("{0}_sum {1}\n{0}_count {2}\n", name, sum, total);
}

void ServeMetrics::request(const std::string& route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  latency_.add(seconds);
}

void ServeMetrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_seconds_.add(seconds);
}

Cost ServeMetrics::price(int64_t prompt, int64_t generated) const {
  if (!prices_) return {};
  const auto total = static_cast<double>(prompt_tokens_ + generated_tokens_);
  const double share = total > 0 ? std::min(1.0, static_cast<double>(prompt + generated) / total) : 0;
  return cost_of(*prices_, prompt, generated, seconds_() * share);
}

void ServeMetrics::charge(const std::string& caller, const Cost& cost) {
  const std::lock_guard lock(mutex_);
  const bool separate = costs_.contains(caller) || costs_.size() < kMaxCallers;
  costs_[separate ? caller : "other"] += cost;
}

Cost ServeMetrics::charged(const std::optional<std::string>& caller) const {
  const std::lock_guard lock(mutex_);
  Cost out;
  for (const auto& [name, cost] : costs_)
    if (!caller || name == *caller) out += cost;
  return out;
}

std::string ServeMetrics::text(const EngineState& engine, int64_t in_flight,
                               const std::optional<std::string>& caller) const {
  const std::lock_guard lock(mutex_);
  std::string out = "# HELP makar:requests_total Requests answered.\n# TYPE makar:requests_total counter\n";
  for (const auto& [key, count] : requests_)
    out += fmt::format("makar:requests_total{{route=\"{}\",code=\"{}\"}} {}\n", key.first, key.second, count);
  const auto add_metric = [&](const char* name, const char* kind, const char* help, int64_t value) {
    out +=
        fmt::format("# HELP makar:{0} {2}\n# TYPE makar:{0} {1}\nmakar:{0} {3}\n", name, kind, help, value);
  };
  add_metric("num_requests_in_flight", "gauge", "Requests admitted and not yet answered.", in_flight);
  add_metric("num_requests_running", "gauge", "Requests in the engine.", engine.tasks);
  add_metric("prompt_tokens_total", "counter", "Prompt tokens.", prompt_tokens_);
  add_metric("generation_tokens_total", "counter", "Generated tokens.", generated_tokens_);
  add_metric("engine_steps_total", "counter", "Forward passes of the engine.", engine.steps);
  add_metric("engine_rows_total", "counter", "Rows of all forward passes.", engine.rows);
  add_metric("prefix_cache_tokens_total", "counter", "Prompt tokens found in the prefix cache.",
             engine.reused_tokens);
  add_metric("num_preemptions_total", "counter", "Sequences preempted because the cache had no free page.",
             engine.preemptions);
  add_metric("kv_cache_pages", "gauge", "Pages of the key/value cache in use.", engine.pages);
  add_metric("kv_cache_pages_max", "gauge", "Maximum number of pages; 0 for no limit.", engine.max_pages);
  add_metric("prefix_cache_pages", "gauge", "Pages kept for shared prompt prefixes.", engine.prefix_pages);
  if (prices_) {
    out += "# HELP makar:cost_total Cost by caller.\n# TYPE makar:cost_total counter\n";
    for (const auto& [name, cost] : costs_)
      if (!caller || name == *caller)
        out += fmt::format("makar:cost_total{{caller=\"{}\",currency=\"{}\"}} {}\n", label_text(name),
                           prices_->currency, cost.money);
    out += "# HELP makar:energy_joules_total Energy by caller.\n# TYPE makar:energy_joules_total counter\n";
    for (const auto& [name, cost] : costs_)
      if (!caller || name == *caller)
        out += fmt::format("makar:energy_joules_total{{caller=\"{}\"}} {}\n", label_text(name), cost.joules);
  }
  out += first_token_seconds_.text("makar:time_to_first_token_seconds", "Time to the first token.");
  return out + latency_.text("makar:request_latency_seconds", "Time to the end of the answer.");
}

}  // namespace makar
