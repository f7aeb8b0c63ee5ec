#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>

#include "serve/http/connection.h"

namespace makar {

namespace http = boost::beast::http;

namespace {
constexpr size_t kMergeBytes = size_t{64} << 10;  // short pieces are merged up to this size
}

std::string HttpConnection::head_text(const HttpResponse& response, bool known_size) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\ncontent-type: {}\r\nconnection: {}\r\n", response.status,
                                std::string_view(reason.data(), reason.size()), response.type,
                                keep_alive_ ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  if (known_size)
    out +=
        fmt::format("content-length: {}\r\n", response.body.size() + response.body_source_bytes.value_or(0));
  else if (chunked_)
    out += "transfer-encoding: chunked\r\n";
  return out + "\r\n";
}

void HttpConnection::send(HttpResponse response) {
  if (!response.body_source) response.body_source_bytes.reset();
  const bool known_size = !response.body_source || response.body_source_bytes;
  if (!known_size && !head_only_) return begin(std::move(response));
  if (answering_) return;
  answering_ = true, chunked_ = false;
  response_resources_ = std::move(response.resources);
  std::string head = head_text(response, known_size);
  if (head_only_) return push(std::move(head), true);
  if (response.body.size() <= kMergeBytes) head += std::exchange(response.body, {});
  if (response.body_source) body_source_ = std::make_shared<BodySource>(std::move(response.body_source));
  source_bytes_ = response.body_source_bytes;
  const bool last = !body_source_;
  if (!response.body.empty()) queue(std::move(head)), head = std::move(response.body);
  push(std::move(head), last);
}

void HttpConnection::begin(HttpResponse head) {
  if (answering_) return;
  answering_ = true, chunked_ = !http_1_0_;
  keep_alive_ = keep_alive_ && chunked_;  // without chunks, closing the connection ends the body
  response_resources_ = std::move(head.resources);
  queue(head_text(head, false));
  if (head.body_source) body_source_ = std::make_shared<BodySource>(std::move(head.body_source));
  source_bytes_.reset();
  push(std::move(head.body), false);
}

void HttpConnection::push(std::string piece, bool last) {
  if (last_) return;
  last_ = last;
  if (chunked_) {
    if (!piece.empty()) piece = fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    if (last) piece += "0\r\n\r\n";
  }
  queue(std::move(piece));
}

// Merges short queued pieces; long ones are not copied.
void HttpConnection::queue(std::string bytes) {
  if (phase_ == Phase::kClosed) return;
  if (unsent_bytes_ > shared_->options.max_unsent) return close();  // the client does not read
  unsent_bytes_ += bytes.size();
  const bool merge = unsent_.size() > in_flight_ && unsent_.back().size() + bytes.size() <= kMergeBytes;
  if (merge)
    unsent_.back() += bytes;
  else if (!bytes.empty())
    unsent_.push_back(std::move(bytes));
  if (!writing_) write_next();
}

void HttpConnection::write_next() {
  if (unsent_.empty()) {
    if (body_source_) return request_piece();
    if (last_) finished();
    return;
  }
  std::vector<boost::asio::const_buffer> buffers;
  for (const std::string& piece : unsent_) buffers.push_back(boost::asio::buffer(piece));
  in_flight_ = unsent_.size();
  writing_ = true;
  if (phase_ == Phase::kAnswer) deadline_ = Clock::now() + shared_->options.write_time;
  transport_->write(std::move(buffers), [self = shared_from_this()](Code code, size_t) {
    self->guarded([&] { self->on_written(code); });
  });
}

// The source may call back on another thread; the piece is posted to this one.
void HttpConnection::request_piece() {
  if (piece_requested_) return;
  piece_requested_ = true;
  const std::shared_ptr<BodySource> source = body_source_;  // keeps it alive: the call may run close()
  (*source)([weak = weak_from_this(), executor = transport_->executor()](std::optional<std::string> piece) {
    boost::asio::post(executor, [weak, piece = std::move(piece)]() mutable {
      const auto self = weak.lock();
      if (self && self->piece_requested_) self->guarded([&] { self->take_piece(std::move(piece)); });
    });
  });
}

void HttpConnection::take_piece(std::optional<std::string> piece) {
  piece_requested_ = false;
  if (phase_ != Phase::kAnswer || !body_source_) return;
  bool last = piece && piece->empty();
  if (source_bytes_) {
    if (!piece || last) return close();  // shorter than its content-length
    if (piece->size() > *source_bytes_) piece->resize(*source_bytes_);
    *source_bytes_ -= piece->size();
    last = *source_bytes_ == 0;
  }
  if (!piece) return close();
  if (last) body_source_ = nullptr;
  push(std::move(*piece), last);
}

void HttpConnection::on_written(Code code) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (code) return close();
  if (phase_ == Phase::kAnswer) deadline_ = Clock::time_point::max();
  for (; in_flight_ > 0; --in_flight_) {
    unsent_bytes_ -= unsent_.front().size();
    unsent_.pop_front();
  }
  write_next();
}

void HttpConnection::finished() {
  answering_ = last_ = chunked_ = piece_requested_ = false;
  body_source_ = nullptr, response_resources_ = nullptr;
  exchange_.reset();
  body_share_.release();
  if (!keep_alive_ || shared_->draining) return linger();
  next_request();
}

// A client that is still sending gets 2 seconds to read the answer: closing at once could reset the
// connection first.
void HttpConnection::linger() {
  enter(Phase::kLinger, std::chrono::seconds(2));
  input_.clear();
  transport_->finish_sending();
  read();
}

}  // namespace makar
