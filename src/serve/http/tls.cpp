// TLS 1.2 and 1.3 by OpenSSL; the only file that knows it.
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "serve/http/transport.h"

namespace makar {
namespace {

namespace net = boost::asio;
namespace ssl = boost::asio::ssl;

// Forward secrecy and authenticated ciphers alone; TLS 1.3 has no others.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr std::string_view kPlainAnswer =
    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 38\r\n\r\n"
    "this port speaks TLS: use https://...\n";

class TlsTransport : public Transport {
 public:
  TlsTransport(Socket socket, ssl::context& context)
      : stream_(std::move(socket), context), remote_(remote_address(stream_.next_layer())) {}
  net::any_io_executor executor() override { return stream_.get_executor(); }
  std::string remote() const override { return remote_; }

  void open(std::function<void(Code)> told) override {
    stream_.async_handshake(ssl::stream_base::server, [this, told = std::move(told)](Code code) {
      // Whoever forgot the s of https is told so, as far as the socket takes it at once.
      if (code.category() == net::error::get_ssl_category() &&
          ERR_GET_REASON(static_cast<unsigned long>(code.value())) == SSL_R_HTTP_REQUEST) {
        Code ignored;
        stream_.next_layer().non_blocking(true, ignored);
        stream_.next_layer().write_some(net::buffer(kPlainAnswer), ignored);
      }
      told(code);
    });
  }

  void read_some(net::mutable_buffer into, Told told) override {
    stream_.async_read_some(into, std::move(told));
  }
  void write(net::const_buffer all, Told told) override { net::async_write(stream_, all, std::move(told)); }

  // Says goodbye; that the other side does, too, is waited for by reading.
  void finish_sending() override {
    stream_.async_shutdown([](Code) {});
  }

  void close() override {
    Code ignored;
    stream_.next_layer().shutdown(Socket::shutdown_both, ignored);
    stream_.next_layer().close(ignored);
  }

 private:
  ssl::stream<Socket> stream_;
  const std::string remote_;
};

// HTTP/1.1 where the client offers protocols at all; one that wants others alone is refused.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kOurs, sizeof(kOurs) - 1, offered, size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

class OpenSslTls : public Tls {
 public:
  Status load_files(const std::string& certificate, const std::string& key) {
    SSL_CTX* native = context_.native_handle();
    SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
    SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
    check(SSL_CTX_set_cipher_list(native, kCiphers) == 1, "OpenSSL knows these ciphers");
    // A key behind a pass phrase would ask at the terminal.
    SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return 0; });
    Transport::Code code;
    context_.use_certificate_chain_file(certificate, code);
    if (code)
      return error_at("--tls-cert", "{} is no certificate in PEM form that can be read ({})", certificate,
                      code.message());
    context_.use_private_key_file(key, ssl::context::pem, code);
    if (code)
      return error_at("--tls-key", "{} is no private key in PEM form, without a pass phrase, of {} ({})", key,
                      certificate, code.message());
    return Done{};
  }
  std::unique_ptr<Transport> wrap(Transport::Socket socket) override {
    return std::make_unique<TlsTransport>(std::move(socket), context_);
  }

 private:
  ssl::context context_{ssl::context::tls_server};
};

}  // namespace

Result<std::unique_ptr<Tls>> Tls::load(const std::string& certificate, const std::string& key) {
  auto tls = std::make_unique<OpenSslTls>();
  MAKAR_CHECK_OK(tls->load_files(certificate, key));
  return std::unique_ptr<Tls>(std::move(tls));
}

}  // namespace makar
