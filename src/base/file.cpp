#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/file_writer.h"
#include "base/lost_pages.h"

namespace makar {
Error io_error(const std::string& path, std::string_view action) {
  const int code = errno;
  const auto kind = code == ENOENT ? Error::Kind::kNotFound : Error::Kind::kIo;
  return error_of(kind, path, "cannot {}: {}", action, std::strerror(code));
}

namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// The address ranges of all mapped files. Never destroyed: a map may outlive every static.
struct Maps {
  std::mutex mutex;
  std::map<const std::byte*, size_t> sizes;
};
Maps& maps() {
  static Maps* all = new Maps;
  return *all;
}

Result<size_t> open_regular(const std::string& path, Descriptor& file) {
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0) {
    const int code = errno;
    if (code == ENOENT && path_exists(path))
      return error_of(
          Error::Kind::kNotFound, path,
          "is a symbolic link to a file that does not exist; download that file or the model again");
    errno = code;
    return io_error(path, "open");
  }
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return io_error(path, "stat");
  if (S_ISDIR(info.st_mode)) return error_at(path, "expected a file, found a folder");
  if (!S_ISREG(info.st_mode))
    return error_at(path, "expected a regular file, found a pipe, socket or device");
  return static_cast<size_t>(info.st_size);
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  Descriptor file;
  MAKAR_TRY(const size_t size, open_regular(path, file));
  std::shared_ptr<MappedFile> map(new MappedFile);
  map->path_ = path;
  map->size_ = size;
  if (size > 0) {
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return io_error(path, "map");
    map->data_ = static_cast<const std::byte*>(data);
    const std::lock_guard lock(maps().mutex);
    maps().sizes[map->data_] = size;
    register_map(map->data_, size);
  }
  return std::shared_ptr<const MappedFile>(map);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  const std::lock_guard lock(maps().mutex);
  maps().sizes.erase(data_);
  unregister_map(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

bool MappedFile::is_mapped(const std::byte* byte) {
  const std::lock_guard lock(maps().mutex);
  const auto after = maps().sizes.upper_bound(byte);
  return after != maps().sizes.begin() && byte < std::prev(after)->first + std::prev(after)->second;
}

void MappedFile::release_pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(maps().mutex);
  auto it = maps().sizes.upper_bound(bytes.data());
  if (it == maps().sizes.begin()) return;
  const auto& [begin, size] = *--it;
  if (bytes.data() + bytes.size() > begin + size) return;
  // Whole pages only; the map itself starts on a page boundary.
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = (static_cast<size_t>(bytes.data() - begin) + page - 1) / page * page;
  const size_t last = static_cast<size_t>(bytes.data() + bytes.size() - begin) / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(begin) + first, last - first, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path, size_t limit) {
  Descriptor file;
  MAKAR_TRY(const size_t size, open_regular(path, file));
  if (size > limit)
    return error_of(Error::Kind::kLimit, path, "has {} bytes; the limit for this kind of file is {}", size,
                    limit);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(file.fd, text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

Status write_file(const std::string& path, std::string_view bytes) {
  MAKAR_TRY(FileWriter writer, FileWriter::open(path));
  MAKAR_RETURN_IF_ERROR(writer.write(bytes));
  return writer.commit();
}

Result<int> open_unnamed_file(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // The file system does not support O_TMPFILE: create a named file and unlink it at once.
  std::string name = folder + "/.makar-XXXXXX";
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return io_error(folder, "create a temporary file");
  ::unlink(name.c_str());
  return fd;
}

Status make_folder(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return error_of(Error::Kind::kIo, path, "cannot create the folder: {}", code.message());
  return Done{};
}

bool is_file(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_regular_file(path, code);
}
bool is_folder(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code);
}
bool path_exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace makar
