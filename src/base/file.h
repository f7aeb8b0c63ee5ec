// Files as bytes: read whole, map, write atomically. Every failure is an Error naming the path.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

// The error of the last system call that failed, from errno: "cannot write: No space left on device".
// `action` is the verb.
Error io_error(const std::string& path, std::string_view action);

// A read-only memory map; the bytes live as long as the object.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Drops the pages of `bytes` from this process if they are part of a mapped file; the next read brings them
  // back from the page cache. Other memory is not touched.
  static void release_pages(std::span<const std::byte> bytes);
  // Whether the byte is part of a mapped file.
  static bool is_mapped(const std::byte* byte);

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// The whole file as text; an error of kind kLimit when it is larger than `limit` bytes.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 30);

// Writes to a temporary file next to `path`, syncs and renames it: a reader sees the old bytes or the new
// ones.
Status write_file(const std::string& path, std::string_view bytes);

// A file without a name in `folder`, for reading and writing. The caller closes the descriptor, which deletes
// the file; no other process can open it.
Result<int> open_unnamed_file(const std::string& folder);

Status make_folder(const std::string& path);
bool is_file(const std::string& path);
bool is_folder(const std::string& path);
// Whether anything has this name: a file, a folder, a pipe, even a dangling symbolic link.
bool path_exists(const std::string& path);

}  // namespace makar
