// One client: requests one after the other, each answered before the next is read. Reading is in
// connection.cpp, answering in connection_answer.cpp.
#pragma once
#include <deque>

#include "serve/http/http.h"
#include "serve/http/transport.h"

namespace makar {

class HttpConnection;
class HttpExchange;

// What all connections share; used on the server's thread alone.
struct HttpShared {
  HttpHandler& handler;
  HttpOptions options;
  size_t body_bytes = 0;  // that are held
  bool draining = false;
  std::function<void(HttpConnection&)> closed = {};
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Clock = std::chrono::steady_clock;
  HttpConnection(std::unique_ptr<Transport> transport, std::shared_ptr<HttpShared> shared);
  ~HttpConnection();

  void start();
  void turn_away() { turned_away_ = true; }  // before start(): too many are here
  void drain();                              // closes now where no request has begun, else after its answer
  void close();
  bool late(Clock::time_point now) const { return now >= deadline_; }
  // Since when its request is waited for; never for one that is answered.
  Clock::time_point waiting_since() const;

 private:
  friend class HttpExchange;
  using Code = Transport::Code;
  struct Parser;
  enum class Phase { kOpening, kHead, kBody, kAnswer, kLinger, kClosed };

  void enter(Phase phase, std::chrono::seconds time);
  void read();
  void was_read(Code code, size_t bytes);
  void next_request();
  void parse();
  void parse_head();
  void parse_body();
  void head_complete();
  void dispatch();
  bool hold(size_t body_bytes);
  void fail(Code code);
  void refuse(HttpResponse response);

  // Of the exchange under way.
  void send(HttpResponse response);
  void begin(HttpResponse head);
  void push(std::string piece, bool last);
  void queue(std::string bytes);
  void write_next();
  void push_more();
  void written(Code code);
  void finished();
  void linger();
  std::string head_text(const HttpResponse& response, bool whole) const;

  std::unique_ptr<Transport> transport_;
  std::shared_ptr<HttpShared> shared_;
  Phase phase_ = Phase::kOpening;
  Clock::time_point deadline_ = Clock::time_point::max(), since_ = Clock::now();
  bool turned_away_ = false, reading_ = false, writing_ = false;

  std::string chunk_;  // where the transport reads to
  std::string input_;  // what is read and not yet taken
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  size_t head_bytes_ = 0, held_ = 0, discarded_ = 0;

  std::weak_ptr<HttpExchange> exchange_;
  bool keep_ = false, old_ = false, head_only_ = false;      // of the request
  bool answering_ = false, chunked_ = false, last_ = false;  // of its answer
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0;
  std::function<std::string()> more_;  // of the body that is being sent
  size_t more_bytes_ = 0, body_limit_ = 0;
};

}  // namespace makar
