// The reply to one request, callable from any thread; all work is done on the connection's thread.
#pragma once
#include <atomic>

#include "serve/http/connection.h"
#include "serve/http/disconnect_callback.h"

namespace makar {

class HttpExchange : public HttpReply {
 public:
  explicit HttpExchange(std::shared_ptr<HttpConnection> connection);
  ~HttpExchange() override;
  void send(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void write(std::string piece) override;
  void end() override;
  void on_disconnect(std::function<void()> callback) override { disconnect_.set(std::move(callback)); }
  void disconnected() { disconnect_.disconnect(); }  // called by the connection when the client disconnects

 private:
  template <class Action>
  void post(Action action);

  std::shared_ptr<HttpConnection> connection_;
  DisconnectCallback disconnect_;
  std::atomic<bool> ended_{false};
};

}  // namespace makar
