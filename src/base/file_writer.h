// A file written in pieces and replaced atomically: a temporary file next to the target, synced, then
// renamed.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

// Until commit() succeeds a reader sees the old file; a writer destroyed before that removes its temporary
// file. The new file has the permissions of the one that it replaces. The target of a symbolic link is
// replaced or created, not the link. Devices, pipes and open descriptors (/dev/stdout, /dev/fd/3) are written
// to directly. Several writers of one path have files of their own; the last commit() remains.
class FileWriter {
 public:
  static Result<FileWriter> open(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }
  Status commit();

 private:
  FileWriter(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  bool writes_in_place() const { return temporary_ == path_; }
  std::string path_, temporary_;
  int fd_;
};

}  // namespace makar
