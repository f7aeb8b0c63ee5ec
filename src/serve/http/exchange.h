// The reply to one request, callable from any thread; all work is done on the connection's thread.
#pragma once
#include <atomic>
#include <mutex>

#include "serve/http/connection.h"

namespace makar {

class HttpExchange : public HttpReply {
 public:
  explicit HttpExchange(std::shared_ptr<HttpConnection> connection);
  ~HttpExchange() override;
  void send(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void write(std::string piece) override;
  void end() override;
  void on_disconnect(std::function<void()> call) override;
  void disconnected();  // called by the connection when the client disconnects

 private:
  template <class Action>
  void post(Action action);

  std::shared_ptr<HttpConnection> connection_;
  std::mutex mutex_;
  std::function<void()> call_;
  bool disconnected_ = false;
  std::atomic<bool> ended_{false};
};

}  // namespace makar
