// Files as bytes: read whole, map, write atomically. Every failure is an Error naming the path.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

// What errno says of the last call that failed: "cannot open: No space left on device".
Error io_error(const std::string& path, std::string_view doing);

// A read-only memory map; the bytes live as long as the object.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // For bytes that will not be read soon: if they lie in a mapped file, their pages leave this process (they
  // come back from the system's cache when they are read again). Other bytes are left alone.
  static void put_aside(std::span<const std::byte> bytes);
  // Whether the byte lies in a mapped file.
  static bool holds(const std::byte* byte);

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// The whole file as text; kLimit when it is larger than `limit` bytes.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 30);

// Writes to a temporary file beside `path`, syncs, renames: a reader sees the old bytes or the new ones.
Status write_file(const std::string& path, std::string_view bytes);

// A file without a name in `folder`, for reading and writing: it goes with its descriptor, which the caller
// closes, so nothing is left behind and nobody else can change it.
Result<int> open_nameless(const std::string& folder);

Status make_folder(const std::string& path);
bool is_file(const std::string& path);
bool is_folder(const std::string& path);
// Something stands there: a file, a folder, a pipe, even a link to nothing.
bool is_there(const std::string& path);

}  // namespace makar
