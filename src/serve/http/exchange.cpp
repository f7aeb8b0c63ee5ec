#include "serve/http/exchange.h"

#include <boost/asio/post.hpp>

namespace makar {

// Actions after the end of the response or on a closed connection do nothing. They run in call order, so an
// exchange never affects the next one.
template <class Action>
void HttpExchange::post(Action action) {
  boost::asio::post(connection_->transport_->executor(),
                    [c = connection_, action = std::move(action)]() mutable {
                      if (c->phase_ == HttpConnection::Phase::kAnswer) c->guarded([&] { action(*c); });
                    });
}

HttpExchange::HttpExchange(std::shared_ptr<HttpConnection> connection) : connection_(std::move(connection)) {}

// Release the connection on its own thread, because that may destroy it.
HttpExchange::~HttpExchange() {
  auto executor = connection_->transport_->executor();
  boost::asio::post(executor, [c = std::move(connection_), ended = ended_.load()] {
    if (ended || c->phase_ != HttpConnection::Phase::kAnswer) return;
    if (c->answering_) return c->close();
    c->guarded([&] { c->send(c->shared_->handler.error_reply(500, "the request was dropped")); });
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

}  // namespace makar
