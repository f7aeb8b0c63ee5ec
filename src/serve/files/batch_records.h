// The records of all batches, in memory and in the folder of the file store.
#pragma once
#include <map>
#include <mutex>
#include <optional>

#include "serve/files/batch.h"
#include "serve/files/file_store.h"

namespace makar {

struct BatchRecord {
  Json batch;                       // the API object
  std::string owner;                // the batch is visible only to its owner
  std::string output_id, error_id;  // file ids, reserved in advance
};

class BatchRecords {
 public:
  // The store must outlive this object.
  explicit BatchRecords(FileStore& files);

  Result<Json> create(const std::string& owner, const Json& body);
  Result<Json> find(const std::string& owner, const std::string& id) const;
  Result<Json> cancel(const std::string& owner, const std::string& id);
  std::vector<Json> list(const std::string& owner) const;  // newest first
  // Whether an unfinished batch reads this file.
  bool uses_file(const std::string& file_id) const;
  // The next batch to run: round robin over owners, oldest unfinished batch first.
  std::optional<BatchRecord> next();
  // Whether another owner has an unfinished batch.
  bool others_unfinished(const std::string& owner) const;
  // change() updates a record in memory and on disk.
  Status change(const std::string& id, const Json& fields);
  void change_in_memory(const std::string& id, const Json& fields);

 private:
  void load();
  Status save(const BatchRecord& record) const;
  void drop_old(const std::string& owner);

  FileStore& files_;
  mutable std::mutex mutex_;
  std::map<std::string, BatchRecord> records_;
  std::map<std::string, uint64_t> turns_;  // by owner: number of its last turn
  uint64_t turn_ = 0;
};

}  // namespace makar
