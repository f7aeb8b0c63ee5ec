// A reply that carries the request id, and at the end of the request writes one line to the access log and
// updates the metrics.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "serve/api/generation_request.h"
#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/rate_limit.h"
#include "serve/request_memory.h"

namespace makar {

constexpr size_t kMaxLoggedPathBytes = 200;                    // longer paths are cut in the log
using LogSink = std::function<void(const std::string& line)>;  // called from any thread

class LoggedReply : public HttpReply {
 public:
  using Clock = std::chrono::steady_clock;
  LoggedReply(std::shared_ptr<HttpReply> reply, const HttpRequest& request, std::string route, std::string id,
              ServeMetrics& metrics, const LogSink& log, RequestMemory& memory);
  ~LoggedReply() override;

  void send(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void write(std::string piece) override { reply_->write(std::move(piece)); }
  void end() override;
  void on_disconnect(std::function<void()> callback) override;

  const std::string& id() const { return id_; }
  // Sets the caller, the rate limits charged for its tokens, and headers added to the response.
  void set_caller(std::string caller, RateLimit& limits, HttpHeaders headers);
  // Adds prompt and generated tokens since the last call.
  void count(int64_t prompt, int64_t generated);
  // What its tokens cost so far; none without prices.
  std::optional<Cost> cost() const;
  const std::string& currency() const { return metrics_.prices()->currency; }
  void first_token();
  void failed(const std::string& why);  // the reason, for the log
  // Reserves memory until the response is sent. On error nothing is reserved.
  Status take_memory(int64_t bytes, const char* what) { return memory_->add(bytes, what); }
  void shrink_memory(int64_t bytes) { memory_->shrink(bytes); }

 private:
  void log_request();

  std::shared_ptr<HttpReply> reply_;
  const std::string method_, path_, remote_, route_, id_;
  const size_t bytes_;
  ServeMetrics& metrics_;
  const LogSink& log_;
  const std::shared_ptr<RequestMemory::Share> memory_;
  std::string caller_;
  RateLimit* limits_ = nullptr;
  HttpHeaders headers_;
  const Clock::time_point start_ = Clock::now();
  std::string error_;  // for the log; empty: none
  std::shared_ptr<std::atomic<bool>> disconnected_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> status_{0};
  std::atomic<bool> complete_{false}, has_first_token_{false};
  std::atomic<int64_t> prompt_{0}, generated_{0};
};

// The client's x-request-id if it is short and plain, or a new id.
std::string request_id(const HttpRequest& request);
// 24 hexadecimal digits.
std::string random_id();

}  // namespace makar
