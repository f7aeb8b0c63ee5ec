// Any bytes from a client through the connection's parser and writer, without a socket: sent at once and byte
// by byte, both must give the same requests and complete responses.
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <cstdlib>

#include "serve/http/connection.h"
#include "target.h"

namespace {

using namespace makar;
namespace net = boost::asio;
namespace http = boost::beast::http;

struct Wire {
  std::string input, output;
  size_t slice = 0, read = 0;
  bool finished = false, closed = false;
  std::function<void()> at_end;  // a read that waits at the end of the input
};

class WireTransport : public Transport {
 public:
  WireTransport(net::io_context& io, Wire& wire) : io_(io), wire_(wire) {}
  net::any_io_executor executor() override { return io_.get_executor(); }
  std::string remote() const override { return "127.0.0.1"; }
  void open(std::function<void(Code)> on_done) override { on_done({}); }
  void read_some(net::mutable_buffer into, OnDone on_done) override {
    const size_t count = std::min({wire_.slice, wire_.input.size() - wire_.read, into.size()});
    if (count == 0 && !wire_.closed) {
      wire_.at_end = [on_done] { on_done(net::error::eof, 0); };
      return;
    }
    net::post(io_, [this, into, on_done, count] {
      if (wire_.closed) return on_done(net::error::operation_aborted, 0);
      std::memcpy(into.data(), wire_.input.data() + wire_.read, count);
      wire_.read += count;
      on_done({}, count);
    });
  }
  void write(std::vector<net::const_buffer> all, OnDone on_done) override {
    if (wire_.finished || wire_.closed) std::abort();
    for (const net::const_buffer& buffer : all)
      wire_.output.append(static_cast<const char*>(buffer.data()), buffer.size());
    net::post(io_, [on_done, size = net::buffer_size(all)] { on_done({}, size); });
  }
  void finish_sending() override { wire_.finished = true; }
  void close() override {
    wire_.closed = true;
    if (wire_.at_end) net::post(io_, std::exchange(wire_.at_end, nullptr));
  }

 private:
  net::io_context& io_;
  Wire& wire_;
};

class Handler : public HttpHandler {
 public:
  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    if (head.headers.size() > 1000 || !head.body.empty()) std::abort();
    if (head.path.starts_with("/no")) return HttpResponse{404, "{}"};
    return std::nullopt;
  }
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override {
    seen.push_back(request.method + " " + request.path + " " + request.body);
    if (request.body.size() > 512) std::abort();
    if (request.path == "/drop") return;
    if (request.path == "/throw") throw std::runtime_error("thrown");
    if (request.path == "/pieces" || request.path == "/known") {  // bodies of unknown and of known length
      HttpResponse response{200, "first"};
      if (request.path == "/known") response.body_source_bytes = 10;
      response.body_source = [left = 3](const GivePiece& give) mutable { give(left-- > 0 ? "piece" : ""); };
      return reply->send(std::move(response));
    }
    if (request.path != "/stream") return reply->send({200, request.body});
    reply->begin({200, "first", "text/event-stream"});
    reply->write(request.body);
    reply->end();
  }
  HttpResponse error_reply(int status, const std::string& why) override {
    return {status, why, "text/plain"};
  }
  std::vector<std::string> seen;
};

// Checks that the output is a series of complete responses.
void check_answers(const std::string& output) {
  std::string_view left = output;
  while (!left.empty()) {
    http::response_parser<http::string_body> parser;
    parser.eager(true);
    parser.skip(left.find("\r\ncontent-type") == left.npos);  // 100 Continue
    boost::system::error_code code;
    const size_t consumed = parser.put(net::buffer(left.data(), left.size()), code);
    if (code && code != http::error::need_more) std::abort();
    if (!parser.is_done()) {  // HTTP/1.0: up to the end of the connection
      parser.put_eof(code);
      if (code) std::abort();
      return;
    }
    left.remove_prefix(consumed);
  }
}

std::vector<std::string> serve(const std::string& input, size_t slice) {
  net::io_context io;
  Wire wire{input, "", slice, 0, false, false, {}};
  Handler handler;
  HttpOptions options;
  options.max_headers = 1024, options.max_body = 512, options.max_unsent = 1 << 16;
  const auto shared = std::make_shared<HttpShared>(handler, options);
  shared->evict = [](const std::string&, HttpConnection::Clock::time_point) { return false; };
  int closed = 0;
  shared->closed = [&](HttpConnection&) { ++closed; };
  {
    const auto connection =
        std::make_shared<HttpConnection>(std::make_unique<WireTransport>(io, wire), shared);
    connection->start();
    io.run();
    while (wire.at_end) {
      std::exchange(wire.at_end, nullptr)();
      io.restart();
      io.run();
    }
  }
  if (closed != 1 || !wire.closed || shared->bodies.counted_bytes() != 0) std::abort();
  // The response to HEAD has a length and no body: this cannot be seen without the request.
  if (input.find("HEAD") == input.npos) check_answers(wire.output);
  return handler.seen;
}

}  // namespace

FUZZ_TARGET(serve_http) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const auto at_once = serve(input, 1 << 16);
  if (at_once != serve(input, 1)) std::abort();
  return 0;
}
