#include "serve/http/connection.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <limits>

namespace makar {

namespace beast = boost::beast;
namespace net = boost::asio;
namespace http = boost::beast::http;

// The way back to the client of one request; everything is done on the connection's thread.
class HttpExchange : public HttpReply, public std::enable_shared_from_this<HttpExchange> {
 public:
  explicit HttpExchange(std::shared_ptr<HttpConnection> connection) : connection_(std::move(connection)) {}
  ~HttpExchange() override {
    if (ended_) return;
    net::post(connection_->stream_.get_executor(), [c = connection_] {
      if (!c->busy_ || c->closed_) return;
      if (c->answering_) return c->close();
      c->send(c->shared_->handler.broken(500, "the request was given up"));
    });
  }
  void send(HttpResponse response) override {
    ended_ = true;
    post([response = std::move(response)](HttpConnection& c) mutable { c.send(std::move(response)); });
  }
  void begin(HttpResponse head) override {
    post([head = std::move(head)](HttpConnection& c) mutable { c.begin(std::move(head)); });
  }
  void write(std::string piece) override {
    post([piece = std::move(piece)](HttpConnection& c) mutable { c.push(std::move(piece), false); });
  }
  void end() override {
    ended_ = true;
    post([](HttpConnection& c) { c.push({}, true); });
  }
  void on_gone(std::function<void()> call) override {
    {
      const std::lock_guard lock(mutex_);
      if (!gone_) {
        call_ = std::move(call);
        return;
      }
    }
    call();
  }
  void left() {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      call = std::move(call_);
    }
    if (call) call();
  }

 private:
  template <class Action>
  void post(Action action) {
    net::post(connection_->stream_.get_executor(), [c = connection_, action = std::move(action)]() mutable {
      if (!c->closed_ && c->busy_) action(*c);
    });
  }
  std::shared_ptr<HttpConnection> connection_;
  std::mutex mutex_;
  std::function<void()> call_;
  bool gone_ = false;
  std::atomic<bool> ended_{false};
};

HttpConnection::HttpConnection(Socket socket, std::shared_ptr<HttpShared> shared)
    : stream_(std::move(socket)), shared_(std::move(shared)), buffer_(shared_->options.max_headers * 2) {
  Code ignored;
  stream_.socket().set_option(net::ip::tcp::no_delay(true), ignored);
  const auto remote = stream_.socket().remote_endpoint(ignored);
  if (!ignored) request_.remote = remote.address().to_string();
}

HttpConnection::~HttpConnection() { shared_->body_bytes -= reserved_; }

void HttpConnection::turn_away() {
  refuse(shared_->handler.broken(503, "too many connections; try again later"));
}

void HttpConnection::drain() {
  keep_ = false;
  if (!busy_) close();
}

void HttpConnection::close() {
  if (closed_) return;
  closed_ = true;
  Code ignored;
  stream_.socket().shutdown(net::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  if (const auto exchange = exchange_.lock()) exchange->left();
  shared_->closed(*this);
}

void HttpConnection::read_head() {
  if (shared_->draining) return close();
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_->options.max_headers));
  parser_->body_limit(std::numeric_limits<uint64_t>::max());  // until the path is known
  stream_.expires_after(shared_->options.header_time);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Code code, size_t) { self->head_read(code); });
}

// What cannot be read is answered where that makes sense, and the connection ends.
void HttpConnection::fail(Code code) {
  if (code == http::error::header_limit || code == http::error::buffer_overflow)
    return refuse(shared_->handler.broken(431, "the headers are longer than the server takes"));
  if (code == http::error::body_limit)
    return refuse(shared_->handler.broken(413, fmt::format("the body is longer than {} bytes", body_limit_)));
  if (code.category() == http::make_error_code(http::error::bad_method).category() &&
      code != http::error::end_of_stream && code != http::error::partial_message)
    return refuse(shared_->handler.broken(400, "not a valid HTTP/1.1 request: " + code.message()));
  close();
}

void HttpConnection::refuse(HttpResponse response) {
  busy_ = true, keep_ = false;
  send(std::move(response));
}

bool HttpConnection::reserve(size_t bytes) {
  shared_->body_bytes -= std::exchange(reserved_, 0);
  if (shared_->body_bytes + bytes > shared_->options.max_bodies) return false;
  shared_->body_bytes += reserved_ = bytes;
  return true;
}

void HttpConnection::head_read(Code code) {
  if (closed_) return;
  if (code) return fail(code);
  const auto& message = parser_->get();
  const std::string target(message.target());
  const size_t mark = target.find('?');
  request_.method = std::string(message.method_string());
  request_.path = target.substr(0, mark);
  request_.query = mark == std::string::npos ? "" : target.substr(mark + 1);
  request_.headers.clear();
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    request_.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  old_ = message.version() < 11;
  keep_ = message.keep_alive() && !shared_->draining;
  head_only_ = message.method() == http::verb::head;
  if (auto refused = shared_->handler.refuse(request_)) {
    // An unread body would be taken for the next request.
    if (parser_->is_done() || (parser_->content_length() && *parser_->content_length() == 0)) {
      busy_ = true;
      return send(std::move(*refused));
    }
    return refuse(std::move(*refused));
  }
  const size_t own = shared_->handler.max_body(request_);
  body_limit_ = own > 0 ? own : shared_->options.max_body;
  parser_->body_limit(body_limit_);
  const auto length = parser_->content_length();
  if (length && *length > body_limit_) return fail(http::error::body_limit);
  if (!reserve(length ? static_cast<size_t>(*length) : parser_->chunked() ? body_limit_ : 0))
    return refuse(shared_->handler.broken(503, "too many bodies at once; try again later"));
  if (beast::iequals(message[http::field::expect], "100-continue")) {
    static const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    stream_.expires_after(shared_->options.write_time);
    net::async_write(stream_, net::buffer(go_on), [self = shared_from_this()](Code failed, size_t) {
      if (failed) return self->close();
      self->read_body();
    });
    return;
  }
  read_body();
}

void HttpConnection::read_body() {
  if (closed_) return;
  stream_.expires_after(shared_->options.body_time);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](Code code, size_t) { self->body_read(code); });
}

void HttpConnection::body_read(Code code) {
  if (closed_) return;
  if (code) return fail(code);
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  dispatch();
}

void HttpConnection::dispatch() {
  busy_ = true, answering_ = false, last_queued_ = false;
  const auto exchange = std::make_shared<HttpExchange>(shared_from_this());
  exchange_ = exchange;
  watch();
  const std::string remote = request_.remote;
  try {
    shared_->handler.handle(std::move(request_), exchange);
  } catch (const std::exception& e) {
    exchange->send(shared_->handler.broken(500, "internal error"));
  }
  request_ = {};
  request_.remote = remote;
}

void HttpConnection::watch() {
  if (closed_ || watching_ || buffer_.size() + 4096 > buffer_.max_size()) return;
  watching_ = true;
  stream_.expires_never();
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Code code, size_t bytes) {
    self->watching_ = false;
    if (self->closed_) return;
    self->buffer_.commit(bytes);
    if (self->read_on_) {
      self->read_on_ = false;
      return code && code != net::error::operation_aborted ? self->close() : self->read_head();
    }
    if (code) return self->close();
    if (self->busy_) self->watch();
  });
}

std::string HttpConnection::head_text(const HttpResponse& response, bool whole) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\ncontent-type: {}\r\nconnection: {}\r\n", response.status,
                                std::string_view(reason.data(), reason.size()), response.type,
                                keep_ ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  if (whole)
    out += fmt::format("content-length: {}\r\n", response.body.size() + response.more_bytes);
  else if (chunked_)
    out += "transfer-encoding: chunked\r\n";
  return out + "\r\n";
}

void HttpConnection::send(HttpResponse response) {
  if (answering_) return;
  answering_ = true;
  chunked_ = false;
  std::string out = head_text(response, true);
  if (!head_only_) out += response.body;
  if (head_only_ || !response.more) return push(std::move(out), true);
  more_ = std::move(response.more), more_bytes_ = response.more_bytes;
  push(std::move(out), false);
}

void HttpConnection::begin(HttpResponse head) {
  if (answering_) return;
  answering_ = true;
  keep_ = keep_ && !old_;  // without chunks the end of the connection is the end of the answer
  const bool chunks = !old_;
  chunked_ = chunks;
  std::string text = head_text(head, false);
  chunked_ = false;
  push(std::move(text), false);
  chunked_ = chunks;
  if (!head.body.empty()) push(std::move(head.body), false);
}

void HttpConnection::push(std::string piece, bool last) {
  if (closed_ || last_queued_) return;
  if (chunked_) {
    if (!piece.empty()) piece = fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    if (last) piece += "0\r\n\r\n";
  }
  if (unsent_bytes_ > shared_->options.max_unsent) return close();  // it does not read
  last_queued_ = last;
  unsent_bytes_ += piece.size();
  if (!piece.empty()) unsent_.push_back(std::move(piece));
  if (!writing_) write_next();
}

void HttpConnection::write_next() {
  if (unsent_.empty()) {
    if (more_) return push_more();
    if (last_queued_) finished();
    return;
  }
  // What waits goes out together.
  if (unsent_.size() > 1) {
    std::string all;
    all.reserve(unsent_bytes_);
    for (const std::string& piece : unsent_) all += piece;
    unsent_.assign(1, std::move(all));
  }
  writing_ = true;
  stream_.expires_after(shared_->options.write_time);
  net::async_write(stream_, net::buffer(unsent_.front()),
                   [self = shared_from_this()](Code code, size_t) { self->written(code); });
}

void HttpConnection::push_more() {
  std::string piece = more_bytes_ > 0 ? more_() : "";
  if (piece.empty() && more_bytes_ > 0) return close();  // what was promised is not there
  if (piece.size() > more_bytes_) piece.resize(more_bytes_);
  more_bytes_ -= piece.size();
  const bool last = more_bytes_ == 0;
  if (last) more_ = nullptr;
  push(std::move(piece), last);
}

void HttpConnection::written(Code code) {
  writing_ = false;
  if (closed_) return;
  if (code) return close();
  unsent_bytes_ -= unsent_.front().size();
  unsent_.pop_front();
  write_next();
}

void HttpConnection::finished() {
  busy_ = answering_ = last_queued_ = chunked_ = false;
  exchange_.reset();
  reserve(0);
  if (!keep_ || shared_->draining) return linger();
  if (!watching_) return read_head();
  read_on_ = true;
  stream_.cancel();
}

// A client still sending gets a moment to read the answer: closing at once could take it away.
void HttpConnection::linger() {
  if (closed_) return;
  Code ignored;
  stream_.socket().shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  if (watching_) {  // its reading ends when the client leaves, or here
    stream_.cancel();
    return close();
  }
  stream_.expires_after(std::chrono::seconds(2));
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(16384), [self = shared_from_this()](Code code, size_t bytes) {
    self->discarded_ += bytes;
    if (code || self->discarded_ > self->shared_->options.max_body * 2) return self->close();
    self->linger();
  });
}

}  // namespace makar
