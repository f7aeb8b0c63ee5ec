// HTTP/1.1 as the service sees it: requests that are whole, and a way back to each client. Sockets, framing,
// limits and time-outs stay behind this header.
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
  std::string method, path, query;  // the target, cut at its '?'
  HttpHeaders headers;              // names in lower case
  std::string body;
  std::string remote;  // the client's address

  // Empty where it is absent; the first one where there are several.
  std::string header(const std::string& name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  HttpHeaders headers = {};
  // The rest of a long body, a piece at a time while the client reads, `more_bytes` in all; an empty one
  // before that ends the connection. Called on the server's thread.
  std::function<std::string()> more = {};
  size_t more_bytes = 0;
};

// The way back to a client, usable from any thread: send() once, or begin(), any number of write() and end().
// What comes after the client has left is dropped. A reply that goes away unanswered tells the client so.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin(HttpResponse head) = 0;  // its body is the first piece
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  // Called once, where the client leaves before the answer is complete.
  virtual void on_gone(std::function<void()> call) = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The headers are read, the body is not: what is refused here costs nothing.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  // How long the body of this request may be; 0: as the options say.
  virtual size_t max_body(const HttpRequest& head) { return 0; }
  // On the server's thread: anything long is done elsewhere.
  virtual void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) = 0;
  // The error a client gets for what is no request at all.
  virtual HttpResponse broken(int status, const std::string& why) = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any that is free
  size_t max_body = size_t{8} << 20, max_headers = size_t{32} << 10;
  size_t max_bodies = size_t{256} << 20;  // of all clients together
  size_t max_unsent = size_t{4} << 20;    // bytes that wait for a client to read them
  size_t max_connections = 512;
  // For a handshake and headers, a body, taking what is sent, and what is under way at the end.
  std::chrono::seconds header_time{30}, body_time{60}, write_time{30}, drain_time{30};
  std::string tls_certificate, tls_key;  // PEM files; both or none
};

// Whether an address is reached from this machine alone.
bool is_loopback(const std::string& host);

class HttpServer {
 public:
  // Listens. Errors: an address that is none, a port that is taken.
  static Result<std::unique_ptr<HttpServer>> listen(HttpHandler& handler, const HttpOptions& options);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  // Serves until stop() or a signal (SIGINT, SIGTERM), then lets what is under way finish; a second signal or
  // the drain time ends it at once. `draining` is called when that begins.
  virtual void run(const std::function<void()>& draining) = 0;
  virtual void stop() = 0;  // from any thread
};

}  // namespace makar
