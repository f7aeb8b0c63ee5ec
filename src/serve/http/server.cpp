#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unordered_map>

#include "serve/http/connection.h"

namespace makar {

namespace net = boost::asio;
using Code = boost::system::error_code;

std::string HttpRequest::header(const std::string& name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::optional<std::string> query_value(const std::string& query, const std::string& key) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string pair = query.substr(at, end - at);
    if (pair.starts_with(key + "=")) return pair.substr(key.size() + 1);
    at = end + 1;
  }
  return std::nullopt;
}

bool is_loopback(const std::string& host) {
  Code code;
  const auto address = net::ip::make_address(host, code);
  return host == "localhost" || (!code && address.is_loopback());
}

namespace {

class BeastServer : public HttpServer {
 public:
  using Clock = HttpConnection::Clock;
  BeastServer(HttpHandler& handler, const HttpOptions& options)
      : shared_(std::make_shared<HttpShared>(handler, options)),
        acceptor_(io_),
        signals_(io_),
        drain_timer_(io_),
        tick_timer_(io_),
        retry_timer_(io_) {
    shared_->closed = [this](HttpConnection& c) {
      // Erase later: the map may hold the last reference to the closing connection.
      net::post(io_, [this, key = &c] {
        connections_.erase(key);
        if (shared_->draining && connections_.empty()) end();
      });
    };
    shared_->evict = [this](const std::string& caller, Clock::time_point since) {
      return evict_upload(caller, since);
    };
  }

  Status open() {
    const HttpOptions& o = shared_->options;
    if (!o.tls_certificate.empty()) {
      MAKAR_TRY(tls_, Tls::load(o.tls_certificate, o.tls_key));
    }
    Code code;
    const auto address = net::ip::make_address(o.host == "localhost" ? "127.0.0.1" : o.host, code);
    if (code) return error_at("`host`", "expected an address such as 127.0.0.1 or 0.0.0.0, got '{}'", o.host);
    const net::ip::tcp::endpoint endpoint(address, o.port);
    acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.set_option(net::socket_base::reuse_address(true), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(net::socket_base::max_listen_connections, code);
    if (code)
      return error_of(Error::Kind::kIo, fmt::format("{}:{}", o.host, o.port),
                      "cannot listen on this address ({}); another `port` may be free", code.message());
    signals_.add(SIGINT, code), signals_.add(SIGTERM, code);
    return Done{};
  }

  uint16_t port() const override { return acceptor_.local_endpoint().port(); }

  void run(const std::function<void()>& draining) override {
    draining_ = draining;
    await_signal();
    accept();
    tick();
    for (bool again = true; again;) {
      again = false;
      try {
        io_.run();
      } catch (const std::exception&) {
        again = true;  // out of memory in one handler; the others are not affected
      }
    }
  }

  void stop() override {
    net::post(io_, [this] { drain(); });
  }

 private:
  void await_signal() {
    signals_.async_wait([this](Code code, int) {
      if (code) return;
      if (shared_->draining) return close_all();
      await_signal();
      drain();
    });
  }

  void drain() {
    if (shared_->draining) return;
    shared_->draining = true;
    if (draining_) draining_();
    Code ignored;
    acceptor_.close(ignored);
    drain_timer_.expires_after(shared_->options.drain_time);
    drain_timer_.async_wait([this](Code code) {
      if (!code) close_all();
    });
    std::vector<std::shared_ptr<HttpConnection>> all;
    for (const auto& [key, c] : connections_) all.push_back(c);
    for (const auto& c : all) c->drain();
    if (connections_.empty()) end();
  }

  void close_all() {
    std::vector<std::shared_ptr<HttpConnection>> all;
    for (const auto& [key, c] : connections_) all.push_back(c);
    for (const auto& c : all) c->close();
    end();
  }

  void end() {
    signals_.cancel();
    drain_timer_.cancel();
    tick_timer_.cancel();
    retry_timer_.cancel();
  }

  // Closes connections past their deadline; one timer serves all.
  void tick() {
    tick_timer_.expires_after(std::chrono::milliseconds(500));
    tick_timer_.async_wait([this](Code cancelled) {
      if (cancelled) return;
      tick();
      const auto now = Clock::now();
      std::vector<std::shared_ptr<HttpConnection>> late;
      for (const auto& [key, c] : connections_)
        if (c->late(now)) late.push_back(c);
      for (const auto& c : late) c->close();
    });
  }

  // At the connection limit, closes the connection that has waited longest for a request, so idle clients
  // cannot block others.
  bool close_longest_idle() {
    std::shared_ptr<HttpConnection> idle;
    for (const auto& [key, c] : connections_)
      if (c->waiting_since() != Clock::time_point::max() &&
          (!idle || c->waiting_since() < idle->waiting_since()))
        idle = c;
    if (!idle) return false;
    idle->close();
    return true;
  }

  bool evict_upload(const std::string& caller, Clock::time_point since) {
    constexpr auto kMinUploadAge = std::chrono::seconds(1);  // younger uploads are not evicted
    std::shared_ptr<HttpConnection> slowest;
    since = std::min(since, Clock::now() - kMinUploadAge);
    for (const auto& [key, c] : connections_)
      if (c->uploading_since() < since && (caller.empty() || c->caller() == caller) &&
          (!slowest || c->uploading_since() < slowest->uploading_since()))
        slowest = c;
    if (!slowest) return false;
    slowest->evict();
    return true;
  }

  void accept() {
    acceptor_.async_accept([this](Code code, net::ip::tcp::socket socket) {
      if (shared_->draining) return;
      if (!code) {
        try {
          connect(std::move(socket));
        } catch (const std::exception&) {  // out of memory or descriptors: drop this connection
          code = net::error::no_memory;
        }
      }
      if (!code) return accept();
      // Out of descriptors, or the client has already disconnected: retry later.
      retry_timer_.expires_after(std::chrono::milliseconds(50));
      retry_timer_.async_wait([this](Code cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void connect(net::ip::tcp::socket socket) {
    Code ignored;
    socket.set_option(net::ip::tcp::no_delay(true), ignored);
    const bool full = connections_.size() >= shared_->options.max_connections && !close_longest_idle();
    const auto c = std::make_shared<HttpConnection>(
        tls_ ? tls_->wrap(std::move(socket)) : Transport::plain(std::move(socket)), shared_);
    connections_[c.get()] = c;
    if (full) c->reject();
    c->start();
  }

  std::shared_ptr<HttpShared> shared_;
  net::io_context io_{1};
  net::ip::tcp::acceptor acceptor_;
  net::signal_set signals_;
  net::steady_timer drain_timer_, tick_timer_, retry_timer_;
  std::unique_ptr<Tls> tls_;
  std::unordered_map<HttpConnection*, std::shared_ptr<HttpConnection>> connections_;
  std::function<void()> draining_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpHandler& handler, const HttpOptions& options) {
  auto server = std::make_unique<BeastServer>(handler, options);
  MAKAR_RETURN_IF_ERROR(server->open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace makar
