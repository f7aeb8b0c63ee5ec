#include "base/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

// Makes the rename itself durable. Some file systems cannot sync a folder; the file is in place even then.
void sync_folder_of(const std::string& path) {
  const auto parent = fs::path(path).parent_path().string();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

// What a path leads to, through links; the file need not exist yet.
struct Target {
  std::string path;
  int descriptor = -1;              // of this process: /dev/stdout is a link to /proc/self/fd/1
  bool of_another_process = false;  // the descriptor of another process
};

Result<Target> target_of(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as in Linux
  fs::path at = path;
  std::error_code failed;
  for (int links = 0; links <= kMaxLinks; ++links) {
    const fs::path parent = at.has_parent_path() ? at.parent_path() : fs::path(".");
    const std::string folder = fs::canonical(parent, failed).string(), name = at.filename().string();
    if (folder.starts_with("/proc/") && folder.ends_with("/fd")) {
      Target out{at.string()};
      if (folder == fs::canonical("/proc/self/fd", failed) ||
          folder == fs::canonical("/proc/thread-self/fd", failed))
        std::from_chars(name.data(), name.data() + name.size(), out.descriptor);
      out.of_another_process = out.descriptor < 0;
      return out;
    }
    if (!fs::is_symlink(at, failed)) return Target{at.string()};
    const fs::path next = fs::read_symlink(at, failed);
    if (failed) return error_of(Error::Kind::kIo, path, "cannot read the link: {}", failed.message());
    at = parent / next;
  }
  return error_at(path, "leads through more than {} links; are they a loop?", kMaxLinks);
}

}  // namespace

Result<FileWriter> FileWriter::open(const std::string& path) {
  MAKAR_TRY(Target target, target_of(path));
  if (target.descriptor >= 0) {
    const int fd = ::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return io_error(path, "open");
    return FileWriter(path, path, fd);
  }
  std::error_code failed;
  const fs::file_status status = fs::status(target.path, failed);
  const bool in_place = target.of_another_process || fs::is_character_file(status) ||
                        fs::is_block_file(status) || fs::is_fifo(status);
  const std::string name = in_place ? target.path : target.path + ".tmp";
  int flags = O_WRONLY | O_CLOEXEC;
  if (!in_place) flags |= O_CREAT | O_TRUNC;
  if (target.of_another_process) flags |= O_APPEND;
  const int fd = ::open(name.c_str(), flags, 0644);
  if (fd < 0) return io_error(name, in_place ? "open" : "create");
  return FileWriter(std::move(target.path), name, fd);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!writes_in_place()) ::unlink(temporary_.c_str());
}

Status FileWriter::write(std::span<const std::byte> bytes) {
  check(fd_ >= 0, "write() after commit()");
  constexpr size_t kMaxWriteBytes = size_t{1} << 30;  // Linux writes at most 2 GiB per call
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(temporary_, "write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return Done{};
}

Status FileWriter::commit() {
  check(fd_ >= 0, "commit() twice");
  if (writes_in_place())
    return ::close(std::exchange(fd_, -1)) == 0 ? Status(Done{}) : io_error(path_, "close");
  if (::fsync(fd_) != 0) return io_error(temporary_, "sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(path_, "rename into place");
  ::close(std::exchange(fd_, -1));
  sync_folder_of(path_);
  return Done{};
}

}  // namespace makar
