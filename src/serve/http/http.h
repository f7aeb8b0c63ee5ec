// The HTTP/1.1 interface of the service: complete requests, and a reply for each. Sockets, framing, limits
// and timeouts are hidden behind this header.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace makar {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, path, query;  // the target, split at '?'
  HttpHeaders headers;              // names in lower case
  std::string body;
  std::string remote;  // the client's address

  // The first header of that name, or empty.
  std::string header(const std::string& name) const;
};

// The value of a key in "a=1&b=2", not unescaped; none without the key.
std::optional<std::string> query_value(const std::string& query, const std::string& key);

// Produces the next piece of a long body. Called on the server thread when the previous piece is sent; passes
// the piece to `give` immediately or later, from any thread. An empty piece ends the body; nullopt means that
// the body cannot be completed and closes the connection.
using GivePiece = std::function<void(std::optional<std::string> piece)>;
using BodySource = std::function<void(GivePiece give)>;

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  HttpHeaders headers = {};
  BodySource body_source = {};                      // the rest of the body, after `body`
  std::optional<size_t> body_source_bytes = {};     // its size; unknown: chunked encoding
  std::shared_ptr<const void> resources = nullptr;  // released after the response or a disconnect
};

// A response handle for any thread: call send() once, or begin(), any number of write(), and end().
// Calls after a disconnect do nothing. A reply that is destroyed unanswered sends an error.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin(HttpResponse head) = 0;  // its body is the first piece
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  // `callback` runs once if the client disconnects before the response is complete.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called before the body is read, so a refusal is cheap.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  // The caller whose share of body memory is charged.
  virtual std::string caller(const HttpRequest& head) { return head.remote; }
  // The body limit of this request; 0: HttpOptions::max_body.
  virtual size_t max_body(const HttpRequest& head) { return 0; }
  // Called on the server thread; must not block.
  virtual void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) = 0;
  // The error response to a request that is malformed, or that the server cannot complete.
  virtual HttpResponse error_reply(int status, const std::string& why) = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any free port
  size_t max_body = size_t{8} << 20, max_headers = size_t{32} << 10;
  size_t max_bodies = size_t{256} << 20;  // bytes in memory, all clients together; at most half per caller
  size_t max_unsent = size_t{4} << 20;    // bytes queued per connection
  size_t max_connections = 512;
  // Timeouts: handshake and headers, body, write progress, and requests in flight at shutdown.
  std::chrono::seconds header_time{30}, body_time{60}, write_time{30}, drain_time{30};
  std::string tls_certificate, tls_key;  // PEM files; both or none
};

// Whether the host is a loopback name or address.
bool is_loopback(const std::string& host);

class HttpServer {
 public:
  // Starts listening. Errors: invalid address, port in use.
  static Result<std::unique_ptr<HttpServer>> listen(HttpHandler& handler, const HttpOptions& options);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  // Serves until stop() or a signal (SIGINT, SIGTERM), then calls `draining` and finishes requests in flight.
  // A second signal or the end of the drain time stops it immediately.
  virtual void run(const std::function<void()>& draining) = 0;
  virtual void stop() = 0;  // from any thread
};

}  // namespace makar
