// What is known of every batch, in memory and beside the files.
#pragma once
#include <map>
#include <mutex>
#include <optional>

#include "serve/files/batch.h"
#include "serve/files/file_store.h"

namespace makar {

struct BatchRecord {
  Json batch;                       // as the API shows it
  std::string owner;                // who alone finds it
  std::string output_id, error_id;  // of its files, whether they are there yet or not
};

class BatchRecords {
 public:
  // The store outlives it.
  explicit BatchRecords(FileStore& files);

  Result<Json> create(const std::string& owner, const Json& body);
  Result<Json> find(const std::string& owner, const std::string& id) const;
  Result<Json> cancel(const std::string& owner, const std::string& id);
  std::vector<Json> list(const std::string& owner) const;  // the newest first
  // Whether a batch that is not over reads this file.
  bool reads(const std::string& file_id) const;
  // The oldest one that is not over.
  std::optional<BatchRecord> next() const;
  // Changes a record, on disk too; note(): in memory alone.
  Status change(const std::string& id, const Json& fields);
  void note(const std::string& id, const Json& fields);

 private:
  void load();
  Status save(const BatchRecord& record) const;
  void forget_old();

  FileStore& files_;
  mutable std::mutex mutex_;
  std::map<std::string, BatchRecord> records_;
};

}  // namespace makar
