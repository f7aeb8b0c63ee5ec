#include "data/spool.h"

#include <unistd.h>

#include "base/file.h"

namespace makar {
namespace {

// An unnamed file: buffered appends, reads at any offset.
class UnnamedFile {
 public:
  ~UnnamedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }
  uint64_t size() const { return written_ + buffer_.size(); }

  Status open(const std::string& folder) {
    folder_ = folder;
    MAKAR_RETURN_IF_ERROR(make_folder(folder));
    MAKAR_TRY(fd_, open_unnamed_file(folder));
    return Done{};
  }

  Status append(std::string_view bytes) {
    buffer_.append(bytes);
    constexpr size_t kBufferBytes = size_t{1} << 20;
    return buffer_.size() >= kBufferBytes ? flush() : Status(Done{});
  }

  Status read(uint64_t at, void* to, size_t size) {
    MAKAR_RETURN_IF_ERROR(flush());
    auto* out = static_cast<char*>(to);
    while (size > 0) {
      const ssize_t got = ::pread(fd_, out, size, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return io_error(folder_, "read a temporary file");
      out += got, at += static_cast<uint64_t>(got), size -= static_cast<size_t>(got);
    }
    return Done{};
  }

 private:
  Status flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
      const ssize_t n = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(written_));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error(folder_, "write a temporary file");
      written_ += static_cast<uint64_t>(n);
      rest.remove_prefix(static_cast<size_t>(n));
    }
    buffer_.clear();
    return Done{};
  }

  int fd_ = -1;
  uint64_t written_ = 0;
  std::string folder_, buffer_;
};

}  // namespace

struct Spool::Files {
  std::string folder;
  UnnamedFile items, ends;  // ends[i]: end offset of item i
  size_t count = 0;
};

Spool::Spool(std::string folder) : files_(std::make_shared<Files>()) { files_->folder = std::move(folder); }

size_t Spool::size() const { return files_->count; }

Status Spool::add(std::string_view bytes) {
  Files& f = *files_;
  if (!f.items.is_open()) {
    MAKAR_RETURN_IF_ERROR(f.items.open(f.folder));
    MAKAR_RETURN_IF_ERROR(f.ends.open(f.folder));
  }
  MAKAR_RETURN_IF_ERROR(f.items.append(bytes));
  const uint64_t end = f.items.size();
  MAKAR_RETURN_IF_ERROR(f.ends.append({reinterpret_cast<const char*>(&end), sizeof(end)}));
  ++f.count;
  return Done{};
}

Result<std::string> Spool::read(size_t at) const {
  Files& f = *files_;
  check(at < f.count, "the index is beyond the end of the spool");
  uint64_t range[2] = {0, 0};
  if (at == 0)
    MAKAR_RETURN_IF_ERROR(f.ends.read(0, &range[1], sizeof(uint64_t)));
  else
    MAKAR_RETURN_IF_ERROR(f.ends.read((at - 1) * sizeof(uint64_t), range, sizeof(range)));
  std::string out(range[1] - range[0], '\0');
  MAKAR_RETURN_IF_ERROR(f.items.read(range[0], out.data(), out.size()));
  return out;
}

}  // namespace makar
