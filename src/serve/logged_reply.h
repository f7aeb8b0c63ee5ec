// A reply that carries the request's id and leaves one line in the access log and its mark in the metrics
// when the request is over.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "serve/api/ask.h"
#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/rate_limit.h"

namespace makar {

using LogSink = std::function<void(const std::string& line)>;  // from any thread

class LoggedReply : public HttpReply {
 public:
  using Clock = std::chrono::steady_clock;
  LoggedReply(std::shared_ptr<HttpReply> reply, const HttpRequest& request, std::string route, std::string id,
              ServeMetrics& metrics, const LogSink& log);
  ~LoggedReply() override;

  void send(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void write(std::string piece) override { reply_->write(std::move(piece)); }
  void end() override;
  void on_gone(std::function<void()> call) override;

  const std::string& id() const { return id_; }
  // Who asks, whose limits its tokens are taken from, and what the answer's head says of both.
  void set_caller(std::string caller, RateLimit& limits, HttpHeaders headers);
  // Tokens read and written since the last time.
  void count(int64_t prompt, int64_t written);
  void first_token();
  void failed(const std::string& why);  // the reason goes into the log

 private:
  void answered(int status) { status_ = status; }

  std::shared_ptr<HttpReply> reply_;
  const std::string method_, path_, remote_, route_, id_;
  const size_t bytes_;
  ServeMetrics& metrics_;
  const LogSink& log_;
  std::string caller_;
  RateLimit* limits_ = nullptr;
  HttpHeaders headers_;
  const Clock::time_point began_ = Clock::now();
  std::string why_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> status_{0};
  std::atomic<bool> complete_{false}, first_{false};
  std::atomic<int64_t> prompt_{0}, written_{0};
};

// The id a client gave where it is a sane one, or a new one.
std::string request_id(const HttpRequest& request);
// 24 hexadecimal digits.
std::string random_id();

}  // namespace makar
