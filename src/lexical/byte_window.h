// A byte stream with look-ahead, for readers of vector files.
#pragma once
#include <algorithm>
#include <optional>

#include "data/byte_stream.h"

namespace makar {

// Limits of vector files: numbers per vector, vectors, bytes of a word.
constexpr size_t kMaxWidth = 100'000, kMaxVectors = 200'000'000, kMaxWordBytes = 10'000;

class ByteWindow {
 public:
  explicit ByteWindow(ByteStream& stream) : stream_(stream) {}
  // At least the next `size` bytes, fewer at the end of the stream; take() moves past them.
  Result<std::string_view> look(size_t size) {
    if (buffer_.size() - at_ < size && !at_end_) {
      buffer_.erase(0, at_);
      at_ = 0;
      const size_t old_size = buffer_.size(), requested = std::max(size - old_size, kReadBytes);
      buffer_.resize(old_size + requested);
      MAKAR_TRY(const size_t received, stream_.read({buffer_.data() + old_size, requested}));
      buffer_.resize(old_size + received);
      at_end_ = received < requested;
    }
    return std::string_view(buffer_).substr(at_);
  }
  void take(size_t size) { at_ += size, offset_ += size; }
  uint64_t offset() const { return offset_; }
  // The next line without its line break; nullopt at the end of the stream.
  Result<std::optional<std::string>> line(size_t limit) {
    for (size_t size = 4096;; size *= 2) {
      MAKAR_TRY(const std::string_view bytes, look(size));
      const size_t end = bytes.find('\n');
      if (end == bytes.npos && bytes.size() >= size && size < limit) continue;
      if (bytes.empty()) return std::optional<std::string>();
      if (std::min(end, bytes.size()) > limit)
        return error_of(Error::Kind::kLimit, place(), "the line is longer than {} bytes", limit);
      std::string out(bytes.substr(0, end));
      take(out.size() + (end != bytes.npos));
      if (!out.empty() && out.back() == '\r') out.pop_back();
      return std::optional(std::move(out));
    }
  }
  std::string place() const { return fmt::format("{}: byte {}", stream_.place(), offset_); }

 private:
  static constexpr size_t kReadBytes = size_t{1} << 18;
  ByteStream& stream_;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
  bool at_end_ = false;
};

}  // namespace makar
