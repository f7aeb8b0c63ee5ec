// Numbered lines of a stream. A line over the limit is skipped without being stored.
#pragma once
#include <memory>
#include <string>

#include "data/byte_stream.h"

namespace makar {

struct Line {
  std::string text;       // without its line break
  uint64_t number = 0;    // from 1
  bool too_long = false;  // text is then empty
};

class LineReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  explicit LineReader(std::unique_ptr<ByteStream> stream, size_t limit = kMaxLineBytes)
      : stream_(std::move(stream)), limit_(limit) {}
  // False at the end of the stream.
  Result<bool> next(Line& line);
  const std::string& place() const { return stream_->place(); }
  size_t limit() const { return limit_; }

 private:
  std::unique_ptr<ByteStream> stream_;
  size_t limit_;
  std::string block_;
  size_t at_ = 0;
  uint64_t number_ = 0;
};

}  // namespace makar
