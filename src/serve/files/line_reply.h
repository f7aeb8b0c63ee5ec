// The reply of one batch line: answers are queued for the thread that runs batches.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "serve/http/disconnect_callback.h"
#include "serve/http/http.h"

namespace makar {

struct LineAnswer {
  uint64_t round;  // the run of a batch that sent the line
  size_t line;
  int status;  // 0: the request was dropped
  std::string body;
};

struct LineResults {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<LineAnswer> answers;
  bool woken = false;  // wake() was called

  void post(LineAnswer answer) {
    {
      const std::lock_guard lock(mutex);
      answers.push_back(std::move(answer));
    }
    arrived.notify_all();
  }
  void wake() {
    {
      const std::lock_guard lock(mutex);
      woken = true;
    }
    arrived.notify_all();
  }
};

class LineReply : public HttpReply {
 public:
  LineReply(std::shared_ptr<LineResults> results, uint64_t round, size_t line)
      : results_(std::move(results)), round_(round), line_(line) {}
  ~LineReply() override { answer(0, {}); }
  void send(HttpResponse response) override { answer(response.status, std::move(response.body)); }
  void begin(HttpResponse) override {}  // streaming is rejected earlier
  void write(std::string) override {}
  void end() override {}
  void on_disconnect(std::function<void()> callback) override { disconnect_.set(std::move(callback)); }
  void disconnect() { disconnect_.disconnect(); }  // the batch no longer needs the answer

 private:
  void answer(int status, std::string body) {
    if (!answered_.exchange(true)) results_->post({round_, line_, status, std::move(body)});
  }
  std::shared_ptr<LineResults> results_;
  const uint64_t round_;
  const size_t line_;
  std::atomic<bool> answered_{false};
  DisconnectCallback disconnect_;
};

}  // namespace makar
