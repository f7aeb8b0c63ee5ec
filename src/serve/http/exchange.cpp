#include "serve/http/exchange.h"

#include <boost/asio/post.hpp>

namespace makar {

// What comes after the answer's end or for a connection that is closed is dropped. Actions are in the order
// of their calls, so those of one exchange never meet the next.
template <class Action>
void HttpExchange::post(Action action) {
  boost::asio::post(connection_->transport_->executor(),
                    [c = connection_, action = std::move(action)]() mutable {
                      if (c->phase_ == HttpConnection::Phase::kAnswer) action(*c);
                    });
}

HttpExchange::HttpExchange(std::shared_ptr<HttpConnection> connection) : connection_(std::move(connection)) {}

HttpExchange::~HttpExchange() {
  if (ended_) return;
  post([](HttpConnection& c) {
    if (c.answering_) return c.close();
    c.send(c.shared_->handler.broken(500, "the request was given up"));
  });
}

void HttpExchange::send(HttpResponse response) {
  ended_ = true;
  post([response = std::move(response)](HttpConnection& c) mutable { c.send(std::move(response)); });
}

void HttpExchange::begin(HttpResponse head) {
  post([head = std::move(head)](HttpConnection& c) mutable { c.begin(std::move(head)); });
}

void HttpExchange::write(std::string piece) {
  post([piece = std::move(piece)](HttpConnection& c) mutable { c.push(std::move(piece), false); });
}

void HttpExchange::end() {
  ended_ = true;
  post([](HttpConnection& c) { c.push({}, true); });
}

void HttpExchange::on_gone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      call_ = std::move(call);
      return;
    }
  }
  call();
}

void HttpExchange::left() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    call = std::move(call_);
  }
  if (call) call();
}

}  // namespace makar
