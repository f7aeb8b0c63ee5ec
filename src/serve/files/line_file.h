// A file to which whole lines are appended.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

namespace makar {

class LineFile {
 public:
  static Result<LineFile> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return io_error(path, "open");
    return LineFile(path, fd);
  }
  LineFile(LineFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  LineFile& operator=(LineFile&& other) noexcept {
    std::swap(path_, other.path_), std::swap(fd_, other.fd_);
    return *this;
  }
  ~LineFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  Status append(std::string_view line) {
    while (!line.empty()) {
      const ssize_t n = ::write(fd_, line.data(), line.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return io_error(path_, "write");
      line.remove_prefix(static_cast<size_t>(n));
    }
    return Done{};
  }
  Status sync() {
    if (::fsync(fd_) != 0) return io_error(path_, "sync");
    return Done{};
  }

 private:
  LineFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace makar
