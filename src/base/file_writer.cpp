#include "base/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace makar {
namespace {

// Makes the rename itself durable. Some file systems cannot sync a folder; the file is in place even then.
void sync_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

Result<FileWriter> FileWriter::open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  const bool is_device = fs::is_character_file(status) || fs::is_block_file(status) || fs::is_fifo(status);
  std::string target = path;
  if (fs::is_symlink(path, failed))
    if (const fs::path linked = fs::weakly_canonical(path, failed); !failed) target = linked.string();
  const std::string name = is_device ? target : target + ".tmp";
  const int fd =
      ::open(name.c_str(), is_device ? O_WRONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(name, is_device ? "open" : "create");
  return FileWriter(std::move(target), name, fd);
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
