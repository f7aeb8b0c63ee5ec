#include "eval/sandbox_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"

namespace makar {
namespace {

// An open folder; makes it readable and writable first.
class OpenFolder {
 public:
  OpenFolder(int parent, const std::string& name) {
    fchmodat(parent, name.c_str(), S_IRWXU, 0);
    file_ = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }
  ~OpenFolder() {
    if (file_ >= 0) close(file_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  int file() const { return file_; }
  bool has(const std::string& name) const {
    struct stat ignored = {};
    return fstatat(file_, name.c_str(), &ignored, AT_SYMLINK_NOFOLLOW) == 0;
  }
  // Removes what is not a folder. Returns the names of the subfolders.
  std::vector<std::string> remove_files() const {
    std::vector<std::string> folders;
    for (std::string& name : names())
      if (unlinkat(file_, name.c_str(), 0) != 0) folders.push_back(std::move(name));
    return folders;
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    const int copy = openat(file_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return out;
    DIR* const entries = fdopendir(copy);
    if (!entries) return close(copy), out;
    while (const dirent* entry = readdir(entries))
      if (const std::string name = entry->d_name; name != "." && name != "..") out.push_back(name);
    closedir(entries);
    return out;
  }
  int file_ = -1;
};

// Subfolders move to the top before they are removed: however deep they are, two open folders are enough and
// no path becomes too long.
Status remove_all(const std::string& folder) {
  const OpenFolder top(AT_FDCWD, folder);
  int64_t moved = 0;
  for (std::vector<std::string> folders = top.remove_files(); !folders.empty();) {
    const std::string name = std::move(folders.back());
    folders.pop_back();
    {
      const OpenFolder below(top.file(), name);
      for (const std::string& inner : below.remove_files()) {
        if (unlinkat(below.file(), inner.c_str(), AT_REMOVEDIR) == 0) continue;
        std::string free_name;
        do free_name = fmt::format("moved-{}", moved++);
        while (top.has(free_name));
        fchmodat(below.file(), inner.c_str(), S_IRWXU, 0);  // moving a folder writes its entry ".."
        if (renameat(below.file(), inner.c_str(), top.file(), free_name.c_str()) == 0)
          folders.push_back(free_name);
      }
    }
    unlinkat(top.file(), name.c_str(), AT_REMOVEDIR);
  }
  if (rmdir(folder.c_str()) != 0) return io_error(folder, "remove the folder of a program");
  return Done{};
}

constexpr const char* kNameBegin = "makar-program-";

// Locks a folder of this user that no process uses. Returns the lock; -1: it is not such a folder.
int locked(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -1;
  struct stat info = {};  // no links: another process removed it before it was locked
  if (fstat(file, &info) == 0 && info.st_uid == geteuid() && flock(file, LOCK_EX | LOCK_NB) == 0 &&
      fstat(file, &info) == 0 && info.st_nlink > 0)
    return file;
  return close(file), -1;
}

// What cannot be removed stays.
void remove_left_folders(const std::filesystem::path& parent) {
  std::error_code code;
  for (std::filesystem::directory_iterator it(parent, code), end; !code && it != end; it.increment(code)) {
    if (!it->path().filename().string().starts_with(kNameBegin)) continue;
    if (const int lock = locked(it->path().string()); lock >= 0) {
      (void)remove_all(it->path().string());
      close(lock);
    }
  }
}

}  // namespace

Result<ProgramFolder> ProgramFolder::make() {
  std::error_code code;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(code);
  if (code) return io_error("sandbox", "find the folder for temporary files");
  remove_left_folders(parent);
  ProgramFolder out;
  constexpr int kAttempts = 100;  // another process may remove the folder before it is locked
  for (int attempt = 0; attempt < kAttempts && out.lock_ < 0; ++attempt) {
    out.path_ = (parent / kNameBegin).string() + "XXXXXX";
    if (!mkdtemp(out.path_.data())) return io_error(out.path_, "make a folder");
    out.lock_ = locked(out.path_);
  }
  if (out.lock_ < 0) return io_error(out.path_, "lock a folder");
  return out;
}

ProgramFolder::ProgramFolder(ProgramFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

ProgramFolder::~ProgramFolder() {
  if (lock_ >= 0) close(lock_);
}

Status ProgramFolder::remove() { return remove_all(path_); }

bool is_larger(const std::string& folder, int64_t bytes) {
  // Some file systems take milliseconds to remove a folder.
  constexpr int64_t kMaxFiles = 20000, kMaxFolders = 500, kMinFileBytes = 4096;
  constexpr int kMaxDepth = 64;  // the iterator keeps a file descriptor open per level
  int64_t files = 0, folders = 0;
  std::error_code code;
  for (std::filesystem::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code ignored;
    const bool plain = it->is_regular_file(ignored) && !it->is_symlink(ignored);
    const auto size = plain ? it->file_size(ignored) : 0;
    folders += it->symlink_status(ignored).type() == std::filesystem::file_type::directory ? 1 : 0;
    bytes -= std::max<int64_t>(kMinFileBytes, ignored ? 0 : static_cast<int64_t>(size));
    if (bytes < 0 || ++files > kMaxFiles || folders > kMaxFolders || it.depth() >= kMaxDepth) return true;
  }
  // An entry that was deleted in the meantime does not count.
  return code && code != std::errc::no_such_file_or_directory;
}

}  // namespace makar
