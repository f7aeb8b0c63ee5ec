#include <boost/beast/http/status.hpp>

#include "serve/http/connection.h"

namespace makar {

namespace http = boost::beast::http;

std::string HttpConnection::head_text(const HttpResponse& response, bool whole) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\ncontent-type: {}\r\nconnection: {}\r\n", response.status,
                                std::string_view(reason.data(), reason.size()), response.type,
                                keep_ ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  if (whole)
    out += fmt::format("content-length: {}\r\n", response.body.size() + response.more_bytes);
  else if (chunked_)
    out += "transfer-encoding: chunked\r\n";
  return out + "\r\n";
}

void HttpConnection::send(HttpResponse response) {
  if (answering_) return;
  answering_ = true, chunked_ = false;
  std::string out = head_text(response, true);
  if (!head_only_) out += response.body;
  if (head_only_ || !response.more) return push(std::move(out), true);
  more_ = std::move(response.more), more_bytes_ = response.more_bytes;
  push(std::move(out), false);
}

void HttpConnection::begin(HttpResponse head) {
  if (answering_) return;
  answering_ = true, chunked_ = !old_;
  keep_ = keep_ && chunked_;  // without chunks the end of the connection is the end of the answer
  queue(head_text(head, false));
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

void HttpConnection::queue(std::string bytes) {
  if (phase_ == Phase::kClosed) return;
  if (unsent_bytes_ > shared_->options.max_unsent) return close();  // it does not read
  unsent_bytes_ += bytes.size();
  if (!bytes.empty()) unsent_.push_back(std::move(bytes));
  if (!writing_) write_next();
}

void HttpConnection::write_next() {
  if (unsent_.empty()) {
    if (more_) return push_more();
    if (last_) finished();
    return;
  }
  // What waits goes out together.
  if (unsent_.size() > 1) {
    std::string all;
    all.reserve(unsent_bytes_);
    for (const std::string& piece : unsent_) all += piece;
    unsent_.clear();
    unsent_.push_back(std::move(all));
  }
  writing_ = true;
  if (phase_ == Phase::kAnswer) deadline_ = Clock::now() + shared_->options.write_time;
  transport_->write(boost::asio::buffer(unsent_.front()),
                    [self = shared_from_this()](Code code, size_t) { self->written(code); });
}

void HttpConnection::push_more() {
  std::string piece = more_bytes_ > 0 ? more_() : "";
  if (piece.empty() && more_bytes_ > 0) return close();  // what was promised is not there
  if (piece.size() > more_bytes_) piece.resize(more_bytes_);
  more_bytes_ -= piece.size();
  const bool last = more_bytes_ == 0;
  if (last) more_ = nullptr;
  push(std::move(piece), last);
}

void HttpConnection::written(Code code) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (code) return close();
  if (phase_ == Phase::kAnswer) deadline_ = Clock::time_point::max();
  unsent_bytes_ -= unsent_.front().size();
  unsent_.pop_front();
  write_next();
}

void HttpConnection::finished() {
  answering_ = last_ = chunked_ = false;
  exchange_.reset();
  hold(0);
  if (!keep_ || shared_->draining) return linger();
  next_request();
}

// A client still sending gets a moment to read the answer: closing at once could take it away.
void HttpConnection::linger() {
  enter(Phase::kLinger, std::chrono::seconds(2));
  input_.clear();
  transport_->finish_sending();
  read();
}

}  // namespace makar
