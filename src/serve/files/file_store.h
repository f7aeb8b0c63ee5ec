// Files uploaded by clients and written by batches: bytes and metadata in one folder. Names given by clients
// are metadata, never paths.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace makar {

struct FileLimits {
  size_t bytes = size_t{100} << 20;  // per file
  size_t files = 10000;
  size_t total_bytes = size_t{16} << 30;
  // `files` and `total_bytes` are divided by this for one owner: a quarter with keys, everything without.
  size_t owner_divisor(const std::string& owner) const { return owner.empty() ? 1 : 4; }
};

class FileStore {
 public:
  // Opens the folder; a missing folder is created with the first file. kLimit: another process uses it.
  static Result<std::unique_ptr<FileStore>> open(const std::string& folder, FileLimits limits);
  ~FileStore();

  // Adds a file and returns its metadata: {"id", "object", "bytes", "created_at", "filename", "purpose",
  // ...}. The file is visible only to its owner.
  Result<Json> add(const std::string& owner, const std::string& filename, const std::string& purpose,
                   std::string_view bytes);
  // Makes the finished output at part_path(id) the file `id`, regardless of limits. Does nothing if the file
  // exists.
  Status adopt(const std::string& owner, const std::string& id, const std::string& filename,
               const std::string& purpose);
  static std::string new_id();
  // Where a batch writes an output until it is adopted as the file `id`.
  std::string part_path(const std::string& id) const { return folder_ + "/" + id + ".part"; }
  // Deletes leftovers of a killed process: temporary files, and every part_path() whose id is not in `ids`,
  // the outputs of unfinished batches.
  void remove_orphans(const std::set<std::string>& ids);
  Result<Json> find(const std::string& owner, const std::string& id) const;
  // The path of the file's data.
  Result<std::string> path(const std::string& owner, const std::string& id) const;
  Status remove(const std::string& owner, const std::string& id);
  std::vector<Json> list(const std::string& owner) const;  // newest first
  // Creates, locks and loads the folder if that is not done yet.
  Status prepare();
  const std::string& folder() const { return folder_; }
  const FileLimits& limits() const { return limits_; }

 private:
  FileStore(std::string folder, FileLimits limits) : folder_(std::move(folder)), limits_(limits) {}
  Status load();
  Status lock();
  Status insert(Json metadata, const std::function<Status()>& write_data);
  std::string data_path(const std::string& id) const { return folder_ + "/" + id + ".data"; }
  std::string metadata_path(const std::string& id) const { return folder_ + "/" + id + ".json"; }

  const std::string folder_;
  const FileLimits limits_;
  int lock_ = -1;  // descriptor of the lock file
  mutable std::mutex mutex_;
  std::map<std::string, Json> files_;  // metadata by id, including the owner
  size_t bytes_ = 0;
};

// Sorts API objects by "created_at", newest first.
void sort_newest_first(std::vector<Json>& objects);

}  // namespace makar
