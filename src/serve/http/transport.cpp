#include "serve/http/transport.h"

#include <boost/asio/write.hpp>

namespace makar {

namespace net = boost::asio;

std::string remote_address(const Transport::Socket& socket) {
  Transport::Code code;
  const auto remote = socket.remote_endpoint(code);
  return code ? "" : remote.address().to_string();
}

namespace {

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)), remote_(remote_address(socket_)) {}
  net::any_io_executor executor() override { return socket_.get_executor(); }
  std::string remote() const override { return remote_; }
  void open(std::function<void(Code)> on_done) override { on_done({}); }
  void read_some(net::mutable_buffer into, OnDone on_done) override {
    socket_.async_read_some(into, std::move(on_done));
  }
  void write(std::vector<net::const_buffer> all, OnDone on_done) override {
    net::async_write(socket_, std::move(all), std::move(on_done));
  }
  void finish_sending() override {
    Code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void close() override {
    Code ignored;
    socket_.shutdown(Socket::shutdown_both, ignored);
    socket_.close(ignored);
  }

 private:
  Socket socket_;
  const std::string remote_;
};

}  // namespace

std::unique_ptr<Transport> Transport::plain(Socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

}  // namespace makar
