// The bytes of a file, decompressed while reading if it is gzip or zstd (detected from the first bytes, not
// the name). Memory use is bounded for any content.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace makar {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` from the front. Returns less than its size only at the end of the stream, then 0.
  virtual Result<size_t> read(std::span<char> out) = 0;
  virtual const std::string& place() const = 0;

  static Result<std::unique_ptr<ByteStream>> open(const std::string& path);
  // A stream over bytes in memory; `place` names them in errors.
  static Result<std::unique_ptr<ByteStream>> from_memory(std::string bytes, const std::string& place);
};

// All remaining bytes, or kLimit if there are more than `limit`.
Result<std::string> read_all(ByteStream& stream, size_t limit);

}  // namespace makar
