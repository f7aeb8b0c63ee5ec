#include "serve/http/connection.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>

#include "base/lower_ascii.h"
#include "serve/http/exchange.h"

namespace makar {

namespace http = boost::beast::http;

namespace {
constexpr size_t kReadBytes = size_t{16} << 10;
}

struct HttpConnection::Parser : http::request_parser<http::string_body> {};

HttpConnection::HttpConnection(std::unique_ptr<Transport> transport, std::shared_ptr<HttpShared> shared)
    : transport_(std::move(transport)), shared_(std::move(shared)), body_share_(shared_->bodies) {
  request_.remote = transport_->remote();
}

HttpConnection::~HttpConnection() = default;  // here, where Parser is complete

void HttpConnection::enter(Phase phase, std::chrono::seconds time) {
  phase_ = phase;
  since_ = Clock::now();
  deadline_ = since_ + time;
}

void HttpConnection::start() {
  enter(Phase::kOpening, shared_->options.header_time);
  transport_->open([self = shared_from_this()](Code code) {
    if (self->phase_ == Phase::kClosed) return;
    if (code) return self->close();
    self->guarded([&] {
      if (!self->rejected_) return self->next_request();
      self->refuse(self->shared_->handler.error_reply(503, "too many connections; try again later"));
      self->read();
    });
  });
}

void HttpConnection::drain() {
  keep_alive_ = false;
  const bool in_request = phase_ == Phase::kHead ? !input_.empty() : phase_ != Phase::kOpening;
  if (!in_request) close();
}

HttpConnection::Clock::time_point HttpConnection::waiting_since() const {
  const bool waits = phase_ == Phase::kOpening || phase_ == Phase::kHead || phase_ == Phase::kBody;
  return waits ? since_ : Clock::time_point::max();
}

HttpConnection::Clock::time_point HttpConnection::uploading_since() const {
  const bool uploads = phase_ == Phase::kBody && body_share_.counted() > 0;
  return uploads ? since_ : Clock::time_point::max();
}

void HttpConnection::evict() {
  refuse(shared_->handler.error_reply(
      408, "the body arrived too slowly while other requests needed its memory; send the request again"));
}

void HttpConnection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  transport_->close();
  body_share_.release();
  body_source_ = nullptr, response_resources_ = nullptr;
  if (const auto exchange = exchange_.lock()) exchange->disconnected();
  shared_->closed(*this);
}

// Reads continuously, even while a request is processed, to detect that the client has closed. Stops reading
// when too many pipelined bytes are buffered.
void HttpConnection::read() {
  if (reading_ || phase_ == Phase::kClosed || input_.size() >= shared_->options.max_headers * 2) return;
  reading_ = true;
  chunk_.resize(kReadBytes);
  transport_->read_some(boost::asio::buffer(chunk_), [self = shared_from_this()](Code code, size_t bytes) {
    self->guarded([&] { self->on_read(code, bytes); });
  });
}

void HttpConnection::on_read(Code code, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (code) return close();
  if (phase_ == Phase::kLinger) {
    discarded_ += bytes;
    if (discarded_ > shared_->options.max_body * 2) return close();
    return read();
  }
  input_.append(chunk_, 0, bytes);
  if (phase_ == Phase::kAnswer) return read();
  parse();
}

void HttpConnection::next_request() {
  if (shared_->draining && input_.empty()) return close();
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(static_cast<uint32_t>(shared_->options.max_headers));
  parser_->body_limit(std::numeric_limits<uint64_t>::max());  // set once the path is known
  head_bytes_ = 0;
  enter(Phase::kHead, shared_->options.header_time);
  parse();
}

void HttpConnection::parse() {
  if (phase_ == Phase::kHead) parse_head();
  if (phase_ == Phase::kBody) parse_body();
  read();
}

void HttpConnection::parse_head() {
  if (input_.empty()) return;
  Code code;
  const size_t consumed = parser_->put(boost::asio::buffer(input_), code);
  input_.erase(0, consumed);
  // The parser enforces the limit only on incomplete headers; count complete ones here.
  head_bytes_ += consumed;
  const bool incomplete = code == http::error::need_more;
  if (head_bytes_ + (incomplete ? input_.size() : 0) > shared_->options.max_headers)
    return fail(http::error::header_limit);
  if (incomplete) return;
  if (code) return fail(code);
  if (parser_->is_header_done()) head_complete();
}

void HttpConnection::parse_body() {
  parser_->eager(true);
  // The parser requires at least the final chunk, "0\r\n\r\n".
  const size_t min = parser_->chunked() ? 5 : 1;
  while (!parser_->is_done() && input_.size() >= min) {
    Code code;
    const size_t consumed = parser_->put(boost::asio::buffer(input_), code);
    input_.erase(0, consumed);
    if (code && code != http::error::need_more) return fail(code);
    if (!reserve_body(parser_->get().body().size()))
      return refuse(
          shared_->handler.error_reply(503, "the memory for request bodies is full; try again later"));
    if (consumed == 0) {  // incomplete chunk header or trailer
      if (input_.size() >= shared_->options.max_headers) fail(http::error::bad_chunk_extension);
      return;
    }
  }
  if (parser_->is_done()) dispatch();
}

// Responds with an error to an unparsable request and closes the connection.
void HttpConnection::fail(Code code) {
  if (code == http::error::header_limit)
    return refuse(shared_->handler.error_reply(
        431, fmt::format("the headers are longer than {} bytes", shared_->options.max_headers)));
  if (code == http::error::body_limit)
    return refuse(
        shared_->handler.error_reply(413, fmt::format("the body is longer than {} bytes", body_limit_)));
  refuse(shared_->handler.error_reply(400, "not a valid HTTP/1.1 request: " + code.message()));
}

void HttpConnection::refuse(HttpResponse response) {
  phase_ = Phase::kAnswer, keep_alive_ = false;
  parser_.reset();
  body_share_.release();
  send(std::move(response));
}

// Reserves memory for the body. If it does not fit, evicts the slowest upload: of the same caller if the
// caller's share is used up, of any caller if the pool is full.
bool HttpConnection::reserve_body(size_t body_bytes) {
  using Full = BodyPool::Share::Full;
  for (;;) {
    const Full full = body_share_.resize(caller_, body_bytes);
    if (full == Full::kNo) return true;
    if (!shared_->evict(full == Full::kCaller ? caller_ : "", since_)) return false;
  }
}

void HttpConnection::head_complete() {
  const auto& message = parser_->get();
  const std::string target(message.target());
  const size_t question = target.find('?');
  request_.method = std::string(message.method_string());
  request_.path = target.substr(0, question);
  request_.query = question == std::string::npos ? "" : target.substr(question + 1);
  request_.headers.clear();
  for (const auto& field : message) {
    const auto name = field.name_string();
    request_.headers.emplace_back(lower_ascii(std::string_view(name.data(), name.size())),
                                  std::string(field.value()));
  }
  http_1_0_ = message.version() < 11;
  keep_alive_ = message.keep_alive() && !shared_->draining;
  head_only_ = message.method() == http::verb::head;
  const auto hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && !http_1_0_))
    return refuse(shared_->handler.error_reply(
        400, fmt::format("expected one Host header, found {}: HTTP/1.1 requires exactly one", hosts)));
  if (auto refused = shared_->handler.refuse(request_)) {
    // Close the connection: an unread body would be parsed as the next request.
    if (!parser_->is_done() && parser_->content_length_remaining().value_or(1) > 0) keep_alive_ = false;
    phase_ = Phase::kAnswer;
    return send(std::move(*refused));
  }
  const size_t route_limit = shared_->handler.max_body(request_);
  body_limit_ =
      std::min(route_limit > 0 ? route_limit : shared_->options.max_body, shared_->bodies.max_body());
  parser_->body_limit(body_limit_);
  if (parser_->content_length().value_or(0) > body_limit_) return fail(http::error::body_limit);
  caller_ = shared_->handler.caller(request_);
  enter(Phase::kBody, shared_->options.body_time);
  if (!http_1_0_ && !parser_->is_done() &&
      boost::beast::iequals(message[http::field::expect], "100-continue"))
    queue("HTTP/1.1 100 Continue\r\n\r\n");
}

void HttpConnection::dispatch() {
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  phase_ = Phase::kAnswer;
  if (!writing_) deadline_ = Clock::time_point::max();
  const auto exchange = std::make_shared<HttpExchange>(shared_from_this());
  exchange_ = exchange;
  HttpRequest request = std::move(request_);
  request_ = {};
  request_.remote = request.remote;
  try {
    shared_->handler.handle(std::move(request), exchange);
  } catch (const std::exception& e) {
    exchange->send(shared_->handler.error_reply(500, "internal error"));
  }
}

}  // namespace makar
