// The bytes to and from one client, plain or through TLS. Used on the server thread; handlers are called
// there asynchronously.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"

namespace makar {

class Transport {
 public:
  using Code = boost::system::error_code;
  using OnDone = std::function<void(Code code, size_t bytes)>;
  using Socket = boost::asio::ip::tcp::socket;
  virtual ~Transport() = default;

  virtual boost::asio::any_io_executor executor() = 0;
  virtual std::string remote() const = 0;  // the client's address
  virtual void open(std::function<void(Code code)> on_done) = 0;
  virtual void read_some(boost::asio::mutable_buffer into, OnDone on_done) = 0;
  // Writes all buffers in order; one write at a time. The buffers must stay valid until `on_done` is called.
  virtual void write(std::vector<boost::asio::const_buffer> all, OnDone on_done) = 0;
  virtual void finish_sending() = 0;  // after the last write; reading continues
  virtual void close() = 0;           // operations in flight end with an error

  static std::unique_ptr<Transport> plain(Socket socket);
};

// A certificate and its key.
class Tls {
 public:
  // PEM files; the first may hold a chain.
  static Result<std::unique_ptr<Tls>> load(const std::string& certificate, const std::string& key);
  virtual ~Tls() = default;
  virtual std::unique_ptr<Transport> wrap(Transport::Socket socket) = 0;
};

std::string remote_address(const Transport::Socket& socket);

}  // namespace makar
