// The bytes of a file, decompressed on the way when it is gzip or zstd (told by its first bytes, not by its
// name). Memory is bounded whatever the file holds.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace makar {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` from the front; less than all of it only at the end, where it gives 0.
  virtual Result<size_t> read(std::span<char> out) = 0;
  virtual const std::string& place() const = 0;

  static Result<std::unique_ptr<ByteStream>> open(const std::string& path);
  // The same for bytes in memory; `place` names them in errors.
  static Result<std::unique_ptr<ByteStream>> from_memory(std::string bytes, const std::string& place);
};

// All bytes, or kLimit when there are more than `limit`.
Result<std::string> read_all(ByteStream& stream, size_t limit);

}  // namespace makar
