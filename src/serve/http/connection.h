// One client connection: requests are processed one after the other, each answered before the next is read.
// Reading is in connection.cpp, responding in connection_answer.cpp.
#pragma once
#include <deque>

#include "serve/http/body_pool.h"
#include "serve/http/http.h"
#include "serve/http/transport.h"

namespace makar {

class HttpConnection;
class HttpExchange;

// State shared by all connections; used only on the server thread.
struct HttpShared {
  HttpShared(HttpHandler& h, const HttpOptions& o) : handler(h), options(o), bodies(o.max_bodies) {}
  HttpHandler& handler;
  const HttpOptions options;
  BodyPool bodies;
  bool draining = false;
  std::function<void(HttpConnection&)> closed = {};
  // Closes the longest-running upload that began before `since`: of `caller`, or of any caller if empty.
  // False: there is none.
  std::function<bool(const std::string& caller, std::chrono::steady_clock::time_point since)> evict = {};
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Clock = std::chrono::steady_clock;
  HttpConnection(std::unique_ptr<Transport> transport, std::shared_ptr<HttpShared> shared);
  ~HttpConnection();

  void start();
  void reject() { rejected_ = true; }  // before start(): at the connection limit
  void drain();                        // closes now if idle, otherwise after the current response
  void close();
  bool late(Clock::time_point now) const { return now >= deadline_; }
  // When the connection began to wait for a request; max() while one is answered.
  Clock::time_point waiting_since() const;
  // When the upload of a body that uses pool memory began; max() otherwise.
  Clock::time_point uploading_since() const;
  const std::string& caller() const { return body_share_.caller(); }
  void evict();  // responds 408 to free the memory of its body

 private:
  friend class HttpExchange;
  using Code = Transport::Code;
  struct Parser;
  enum class Phase { kOpening, kHead, kBody, kAnswer, kLinger, kClosed };

  void enter(Phase phase, std::chrono::seconds time);
  void read();
  void on_read(Code code, size_t bytes);
  void next_request();
  void parse();
  void parse_head();
  void parse_body();
  void head_complete();
  void dispatch();
  bool reserve_body(size_t body_bytes);
  // Runs a handler; an exception closes only this connection.
  template <class Action>
  void guarded(Action action);
  void fail(Code code);
  void refuse(HttpResponse response);

  // For the current exchange.
  void send(HttpResponse response);
  void begin(HttpResponse head);
  void push(std::string piece, bool last);
  void queue(std::string bytes);
  void write_next();
  void request_piece();
  void take_piece(std::optional<std::string> piece);
  void on_written(Code code);
  void finished();
  void linger();
  std::string head_text(const HttpResponse& response, bool known_size) const;

  std::unique_ptr<Transport> transport_;
  std::shared_ptr<HttpShared> shared_;
  Phase phase_ = Phase::kOpening;
  Clock::time_point since_ = Clock::now();                 // start of the phase
  Clock::time_point deadline_ = Clock::time_point::max();  // of the phase
  bool rejected_ = false, reading_ = false, writing_ = false;

  std::string chunk_;  // read buffer of the transport
  std::string input_;  // received but not yet parsed
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  std::string caller_;
  BodyPool::Share body_share_;
  size_t head_bytes_ = 0, discarded_ = 0;

  std::weak_ptr<HttpExchange> exchange_;
  bool keep_alive_ = false, http_1_0_ = false, head_only_ = false;  // of the request
  bool answering_ = false, chunked_ = false;                        // of the response
  bool last_ = false;                                               // the end of the response is queued
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0, in_flight_ = 0;  // bytes queued; pieces being written
  std::shared_ptr<BodySource> body_source_;  // source of the body being sent
  std::optional<size_t> source_bytes_;       // left to read from it; unset: unknown
  bool piece_requested_ = false;
  std::shared_ptr<const void> response_resources_;
  size_t body_limit_ = 0;
};

// Defined here because both .cpp files use it.
template <class Action>
void HttpConnection::guarded(Action action) {
  try {
    action();
  } catch (const std::exception&) {
    close();
  }
}

}  // namespace makar
