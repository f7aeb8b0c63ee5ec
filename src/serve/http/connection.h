// One client: requests one after the other, each answered before the next is read.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <mutex>

#include "serve/http/http.h"

namespace makar {

// What all connections share; used on the server's thread alone.
struct HttpShared {
  HttpHandler& handler;
  HttpOptions options;
  size_t body_bytes = 0;  // that are held or promised
  bool draining = false;
  std::function<void(class HttpConnection&)> closed = {};
};

class HttpExchange;

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  HttpConnection(Socket socket, std::shared_ptr<HttpShared> shared);
  ~HttpConnection();

  void start() { read_head(); }
  void turn_away();  // too many are here
  void drain();      // closes now where nothing is under way, else after the answer
  void close();

 private:
  friend class HttpExchange;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Code = boost::beast::error_code;

  void read_head();
  void head_read(Code code);
  void read_body();
  void body_read(Code code);
  void dispatch();
  bool reserve(size_t bytes);
  void fail(Code code);
  void refuse(HttpResponse response);

  // Of the exchange under way.
  void send(HttpResponse response);
  void begin(HttpResponse head);
  void push(std::string piece, bool last);
  void write_next();
  void push_more();
  void written(Code code);
  void finished();
  std::string head_text(const HttpResponse& response, bool whole) const;

  // While an answer is made the socket is read, so that a client who leaves is noticed.
  void watch();
  void linger();

  boost::beast::tcp_stream stream_;
  std::shared_ptr<HttpShared> shared_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  size_t reserved_ = 0, discarded_ = 0;
  std::weak_ptr<HttpExchange> exchange_;
  bool busy_ = false, answering_ = false, chunked_ = false, keep_ = false, old_ = false, head_only_ = false;
  bool watching_ = false, writing_ = false, last_queued_ = false, closed_ = false, read_on_ = false;
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0;
  std::function<std::string()> more_;  // of the body that is being sent
  size_t more_bytes_ = 0, body_limit_ = 0;
};

}  // namespace makar
