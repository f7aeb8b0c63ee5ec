// TLS 1.2 and 1.3. The only file that uses OpenSSL.
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <memory>

#include "serve/http/transport.h"

namespace makar {
namespace {

namespace net = boost::asio;
namespace ssl = boost::asio::ssl;

// Only authenticated ciphers with forward secrecy; TLS 1.3 has no others.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr std::string_view kPlainHttpResponse =
    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 40\r\n\r\n"
    "this port requires TLS: use https://...\n";

// The stream is shared: each operation holds it until its handler has run, so an operation that the
// connection no longer waits for (the shutdown of a client that keeps its socket open) never outlives the
// stream.
class TlsTransport : public Transport {
 public:
  TlsTransport(Socket socket, ssl::context& context)
      : stream_(std::make_shared<Stream>(std::move(socket), context)),
        remote_(remote_address(stream_->next_layer())) {}
  net::any_io_executor executor() override { return stream_->get_executor(); }
  std::string remote() const override { return remote_; }

  void open(std::function<void(Code)> on_done) override {
    stream_->async_handshake(
        ssl::stream_base::server, [stream = stream_, on_done = std::move(on_done)](Code code) {
          // Send a plain-text error to a plain HTTP client, without blocking.
          if (code.category() == net::error::get_ssl_category() &&
              ERR_GET_REASON(static_cast<unsigned long>(code.value())) == SSL_R_HTTP_REQUEST) {
            Code ignored;
            stream->next_layer().non_blocking(true, ignored);
            stream->next_layer().write_some(net::buffer(kPlainHttpResponse), ignored);
          }
          on_done(code);
        });
  }

  void read_some(net::mutable_buffer into, OnDone on_done) override {
    stream_->async_read_some(into, holding(std::move(on_done)));
  }
  void write(std::vector<net::const_buffer> all, OnDone on_done) override {
    net::async_write(*stream_, std::move(all), holding(std::move(on_done)));
  }

  // Sends close_notify; the client's close_notify is handled by the read path.
  void finish_sending() override {
    stream_->async_shutdown([stream = stream_](Code) {});
  }

  void close() override {
    Code ignored;
    stream_->next_layer().shutdown(Socket::shutdown_both, ignored);
    stream_->next_layer().close(ignored);
  }

 private:
  using Stream = ssl::stream<Socket>;
  // Wraps a handler so that it keeps the stream alive until it has run.
  OnDone holding(OnDone on_done) const {
    return
        [stream = stream_, on_done = std::move(on_done)](Code code, size_t bytes) { on_done(code, bytes); };
  }
  const std::shared_ptr<Stream> stream_;
  const std::string remote_;
};

// ALPN: selects HTTP/1.1; rejects clients that offer only other protocols.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned size, void*) {
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kProtocols, sizeof(kProtocols) - 1, offered, size) !=
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
    const bool supported = SSL_CTX_set_cipher_list(native, kCiphers) == 1;
    check(supported, "OpenSSL supports these ciphers");
    // Never prompt for a passphrase on the terminal.
    SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return 0; });
    Transport::Code code;
    context_.use_certificate_chain_file(certificate, code);
    if (code)
      return error_at("`tls_cert`", "{} is not a readable PEM certificate ({})", certificate, code.message());
    context_.use_private_key_file(key, ssl::context::pem, code);
    if (code)
      return error_at("`tls_key`", "{} is not an unencrypted PEM private key for {} ({})", key, certificate,
                      code.message());
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
  MAKAR_RETURN_IF_ERROR(tls->load_files(certificate, key));
  return std::unique_ptr<Tls>(std::move(tls));
}

}  // namespace makar
