#include "eval/sandbox_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
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

}  // namespace

Result<std::string> make_program_folder() {
  std::error_code code;
  std::string path = (std::filesystem::temp_directory_path(code) / "makar-program-XXXXXX").string();
  if (code || !mkdtemp(path.data())) return io_error(path, "make a folder");
  return path;
}

bool is_larger(const std::string& folder, int64_t bytes) {
  constexpr int64_t kMaxFiles = 20000, kMinFileBytes = 4096;
  constexpr int kMaxDepth = 64;  // the iterator keeps a file descriptor open per level
  int64_t files = 0;
  std::error_code code;
  for (std::filesystem::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code ignored;
    const bool plain = it->is_regular_file(ignored) && !it->is_symlink(ignored);
    const auto size = plain ? it->file_size(ignored) : 0;
    bytes -= std::max<int64_t>(kMinFileBytes, ignored ? 0 : static_cast<int64_t>(size));
    if (bytes < 0 || ++files > kMaxFiles || it.depth() >= kMaxDepth) return true;
  }
  // An entry that was deleted in the meantime does not count.
  return code && code != std::errc::no_such_file_or_directory;
}

// Subfolders move to the top before they are removed: however deep they are, two open folders are enough and
// no path becomes too long.
Status remove_program_folder(const std::string& folder) {
  const OpenFolder top(AT_FDCWD, folder);
  int64_t moved = 0;
  for (std::vector<std::string> folders = top.remove_files(); !folders.empty();) {
    const std::string name = std::move(folders.back());
    folders.pop_back();
    {
      const OpenFolder below(top.file(), name);
      for (const std::string& inner : below.remove_files()) {
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

}  // namespace makar
