// Files that clients upload and batches write: bytes and a few facts of each, in one folder. Names of clients
// are facts, never paths.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace makar {

struct FileLimits {
  size_t bytes = size_t{100} << 20;  // of a file
  size_t files = 10000;
  size_t all = size_t{16} << 30;  // bytes of all files together
};

class FileStore {
 public:
  // What is in the folder; one that is not there is made with the first file. kLimit: another process has it.
  static Result<std::unique_ptr<FileStore>> open(const std::string& folder, FileLimits limits);
  ~FileStore();

  // The facts of the new file: {"id", "object", "bytes", "created_at", "filename", "purpose", ...}. Nobody
  // but its owner finds it.
  Result<Json> add(const std::string& owner, const std::string& filename, const std::string& purpose,
                   std::string_view bytes);
  // What was written to part_path(id) becomes a file, whatever the bounds are; nothing where it is one
  // already.
  Status adopt(const std::string& owner, const std::string& id, const std::string& filename,
               const std::string& purpose);
  static std::string new_id();
  std::string part_path(const std::string& id) const { return folder_ + "/" + id + ".part"; }
  Result<Json> find(const std::string& owner, const std::string& id) const;
  // Where its bytes are.
  Result<std::string> path(const std::string& owner, const std::string& id) const;
  Status remove(const std::string& owner, const std::string& id);
  std::vector<Json> list(const std::string& owner) const;  // the newest first
  // Makes the folder where it is not there yet.
  Status prepare();
  const std::string& folder() const { return folder_; }
  const FileLimits& limits() const { return limits_; }

 private:
  FileStore(std::string folder, FileLimits limits) : folder_(std::move(folder)), limits_(limits) {}
  Status load();
  Status lock();
  Status enter(Json facts, const std::function<Status()>& put);
  std::string data_path(const std::string& id) const { return folder_ + "/" + id + ".data"; }
  std::string facts_path(const std::string& id) const { return folder_ + "/" + id + ".json"; }

  const std::string folder_;
  const FileLimits limits_;
  int lock_ = -1;  // a descriptor
  mutable std::mutex mutex_;
  std::map<std::string, Json> files_;  // by id; with their owners
  size_t bytes_ = 0;
};

}  // namespace makar
