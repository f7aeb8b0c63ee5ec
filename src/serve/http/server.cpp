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

bool is_loopback(const std::string& host) {
  Code code;
  const auto address = net::ip::make_address(host, code);
  return host == "localhost" || (!code && address.is_loopback());
}

namespace {

class BeastServer : public HttpServer {
 public:
  BeastServer(HttpHandler& handler, const HttpOptions& options)
      : shared_(std::make_shared<HttpShared>(HttpShared{handler, options})),
        acceptor_(io_),
        signals_(io_),
        timer_(io_),
        ticks_(io_),
        retry_(io_) {
    shared_->closed = [this](HttpConnection& c) {
      // The last reference may be the one that is closing.
      net::post(io_, [this, key = &c] {
        connections_.erase(key);
        if (shared_->draining && connections_.empty()) end();
      });
    };
  }

  Status open() {
    const HttpOptions& o = shared_->options;
    if (!o.tls_certificate.empty()) {
      MAKAR_TRY(tls_, Tls::load(o.tls_certificate, o.tls_key));
    }
    Code code;
    const auto address = net::ip::make_address(o.host == "localhost" ? "127.0.0.1" : o.host, code);
    if (code) return error_at("--host", "expected an address such as 127.0.0.1 or 0.0.0.0, got '{}'", o.host);
    const net::ip::tcp::endpoint end(address, o.port);
    acceptor_.open(end.protocol(), code);
    if (!code) acceptor_.set_option(net::socket_base::reuse_address(true), code);
    if (!code) acceptor_.bind(end, code);
    if (!code) acceptor_.listen(net::socket_base::max_listen_connections, code);
    if (code)
      return error_of(Error::Kind::kIo, fmt::format("{}:{}", o.host, o.port),
                      "cannot listen there ({}); another --port may be free", code.message());
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
        again = true;  // the connection it came from is gone; the others go on
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
      if (shared_->draining) return cut();
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
    timer_.expires_after(shared_->options.drain_time);
    timer_.async_wait([this](Code code) {
      if (!code) cut();
    });
    std::vector<std::shared_ptr<HttpConnection>> all;
    for (const auto& [key, c] : connections_) all.push_back(c);
    for (const auto& c : all) c->drain();
    if (connections_.empty()) end();
  }

  void cut() {
    std::vector<std::shared_ptr<HttpConnection>> all;
    for (const auto& [key, c] : connections_) all.push_back(c);
    for (const auto& c : all) c->close();
    end();
  }

  void end() {
    signals_.cancel();
    timer_.cancel();
    ticks_.cancel();
    retry_.cancel();
  }

  // Clients who take too long; one timer for all of them.
  void tick() {
    ticks_.expires_after(std::chrono::milliseconds(500));
    ticks_.async_wait([this](Code cancelled) {
      if (cancelled) return;
      const auto now = HttpConnection::Clock::now();
      std::vector<std::shared_ptr<HttpConnection>> late;
      for (const auto& [key, c] : connections_)
        if (c->late(now)) late.push_back(c);
      for (const auto& c : late) c->close();
      tick();
    });
  }

  // When the house is full, whoever has been silent the longest makes room: clients who connect and say
  // nothing cannot keep the others out.
  bool make_room() {
    std::shared_ptr<HttpConnection> silent;
    for (const auto& [key, c] : connections_)
      if (c->waiting_since() != HttpConnection::Clock::time_point::max() &&
          (!silent || c->waiting_since() < silent->waiting_since()))
        silent = c;
    if (!silent) return false;
    silent->close();
    return true;
  }

  void accept() {
    acceptor_.async_accept([this](Code code, net::ip::tcp::socket socket) {
      if (shared_->draining) return;
      if (code) {  // no descriptors left, or a client that left at once
        retry_.expires_after(std::chrono::milliseconds(50));
        retry_.async_wait([this](Code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      socket.set_option(net::ip::tcp::no_delay(true), code);
      const bool full = connections_.size() >= shared_->options.max_connections && !make_room();
      const auto c = std::make_shared<HttpConnection>(
          tls_ ? tls_->wrap(std::move(socket)) : Transport::plain(std::move(socket)), shared_);
      connections_[c.get()] = c;
      if (full) c->turn_away();
      c->start();
      accept();
    });
  }

  std::shared_ptr<HttpShared> shared_;
  net::io_context io_{1};
  net::ip::tcp::acceptor acceptor_;
  net::signal_set signals_;
  net::steady_timer timer_, ticks_, retry_;
  std::unique_ptr<Tls> tls_;
  std::unordered_map<HttpConnection*, std::shared_ptr<HttpConnection>> connections_;
  std::function<void()> draining_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpHandler& handler, const HttpOptions& options) {
  auto server = std::make_unique<BeastServer>(handler, options);
  MAKAR_CHECK_OK(server->open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace makar
