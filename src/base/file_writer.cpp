#include "base/file_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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

// -1: the name is not a number.
int descriptor_named(const std::string& name) {
  int out = -1;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), out);
  return code == std::errc() && end == name.data() + name.size() ? out : -1;
}

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
        out.descriptor = descriptor_named(name);
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

// Creates and locks a file that is not there yet; -1 if there is one, or on an error (errno).
int create_locked(const std::string& name) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  if (fd < 0) return -1;
  struct stat mine = {}, named = {};
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &mine) == 0 &&
                      ::lstat(name.c_str(), &named) == 0 && mine.st_ino == named.st_ino;
  if (locked) return fd;
  ::close(fd);  // another writer took it for a leftover
  errno = EEXIST;
  return -1;
}

// Removes the temporary file of a writer that was killed. Other files, links and locked files stay.
void remove_leftover(const std::string& name) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  struct stat status = {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
      ::flock(fd, LOCK_EX | LOCK_NB) == 0)
    ::unlink(name.c_str());
  ::close(fd);
}

// A new file next to `path`: PATH.tmp, or PATH.PID-N.tmp if other programs have that name; -1: errno.
int create_temporary(const std::string& path, std::string& name) {
  constexpr int kMaxNames = 100;
  name = path + ".tmp";
  for (int i = 1; i <= kMaxNames; ++i) {
    if (const int fd = create_locked(name); fd >= 0 || errno != EEXIST) return fd;
    remove_leftover(name);
    if (const int fd = create_locked(name); fd >= 0 || errno != EEXIST) return fd;
    name = fmt::format("{}.{}-{}.tmp", path, ::getpid(), i);
  }
  return -1;
}

}  // namespace

Result<FileWriter> FileWriter::open(const std::string& path) {
  if (path.empty()) return error_at("output", "has an empty name; expected the name of a file");
  MAKAR_TRY(Target target, target_of(path));
  if (target.descriptor >= 0) {
    const int fd = ::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return io_error(path, "open");
    return FileWriter(path, path, fd);
  }
  std::error_code failed;
  const fs::file_status status = fs::status(target.path, failed);
  if (fs::is_directory(status)) return error_at(path, "is a folder; expected the name of a file");
  if (fs::is_socket(status)) return error_at(path, "is a socket; expected the name of a file");
  if (target.of_another_process || fs::is_character_file(status) || fs::is_block_file(status) ||
      fs::is_fifo(status)) {
    const int append = target.of_another_process ? O_APPEND : 0;
    const int fd = ::open(target.path.c_str(), O_WRONLY | O_CLOEXEC | append);
    if (fd < 0) return io_error(target.path, "open");
    return FileWriter(target.path, target.path, fd);
  }
  std::string name;
  const int fd = create_temporary(target.path, name);
  if (fd < 0) return io_error(name, "create");
  // A private file stays private.
  if (fs::exists(status)) ::fchmod(fd, static_cast<mode_t>(status.permissions()) & 0777);
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
