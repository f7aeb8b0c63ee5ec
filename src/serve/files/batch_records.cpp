#include "serve/files/batch_records.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>

#include "base/quote.h"
#include "serve/api/fields.h"

namespace makar {
namespace {

// Limits per owner.
constexpr size_t kMaxUnfinishedBatches = 100, kMaxStoredBatches = 1000;

// Checks the fields that other code relies on.
bool is_batch(const Json& batch) {
  if (!batch.is_object()) return false;
  for (const char* key : {"id", "status", "endpoint", "input_file_id"})
    if (!batch.contains(key) || !batch[key].is_string()) return false;
  for (const char* key : {"created_at", "expires_at"})
    if (!batch.contains(key) || !batch[key].is_number_integer()) return false;
  return true;
}

}  // namespace

Result<Json> BatchRecords::create(const std::string& owner, const Json& body) {
  MAKAR_TRY(Json batch, new_batch(body));
  const auto metadata = files_.find(owner, batch["input_file_id"].get<std::string>());
  if (!metadata.ok()) return Error{metadata.error().kind, "input_file_id", metadata.error().message};
  if ((*metadata)["purpose"] != "batch")
    return error_at("input_file_id", "is a file for {}; upload one with the purpose batch",
                    quote((*metadata)["purpose"].get<std::string>()));
  BatchRecord record{batch, owner, FileStore::new_id(), FileStore::new_id()};
  {
    const std::lock_guard lock(mutex_);
    const auto unfinished = std::count_if(records_.begin(), records_.end(), [&](const auto& one) {
      return one.second.owner == owner && !is_over(one.second.batch);
    });
    if (static_cast<size_t>(unfinished) >= kMaxUnfinishedBatches)
      return error_of(Error::Kind::kLimit, "memory", "{} batches are unfinished; try again later",
                      unfinished);
    MAKAR_RETURN_IF_ERROR(save(record));
    records_[batch["id"].get<std::string>()] = std::move(record);
    drop_old(owner);
  }
  return batch;
}

Result<Json> BatchRecords::find(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = records_.find(id);
  if (it == records_.end() || it->second.owner != owner)
    return error_of(Error::Kind::kNotFound, "batch_id", "batch {} not found", quote(id));
  return it->second.batch;
}

Result<Json> BatchRecords::cancel(const std::string& owner, const std::string& id) {
  MAKAR_TRY(const Json batch, find(owner, id));
  if (is_over(batch))
    return error_at("batch_id", "the batch is {} already", batch["status"].get<std::string>());
  if (batch["status"] != "cancelling")
    MAKAR_RETURN_IF_ERROR(change(id, {{"status", "cancelling"}, {"cancelling_at", std::time(nullptr)}}));
  return find(owner, id);
}

std::vector<Json> BatchRecords::list(const std::string& owner) const {
  std::vector<Json> out;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, record] : records_)
      if (record.owner == owner) out.push_back(record.batch);
  }
  sort_newest_first(out);
  return out;
}

bool BatchRecords::uses_file(const std::string& file_id) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(records_.begin(), records_.end(), [&](const auto& one) {
    return !is_over(one.second.batch) && one.second.batch["input_file_id"] == Json(file_id);
  });
}

Status BatchRecords::save(const BatchRecord& record) const {
  const std::string path = files_.folder() + "/" + record.batch["id"].get<std::string>() + ".json";
  return write_file(path, dump({{"batch", record.batch},
                                {"owner", record.owner},
                                {"output_id", record.output_id},
                                {"error_id", record.error_id}}));
}

Status BatchRecords::change(const std::string& id, const Json& fields) {
  change_in_memory(id, fields);
  const std::lock_guard lock(mutex_);
  return save(records_.at(id));
}

BatchRecords::BatchRecords(FileStore& files) : files_(files) {
  if (!is_folder(files_.folder())) return;
  load();
  std::set<std::string> parts;
  for (const auto& [id, record] : records_)
    if (!is_over(record.batch)) parts.insert(record.output_id), parts.insert(record.error_id);
  files_.remove_orphans(parts);
}

// Unreadable records are ignored and stay on disk.
void BatchRecords::load() {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (fs::directory_iterator it(files_.folder(), failed), end; !failed && it != end; it.increment(failed)) {
    const std::string id = it->path().stem().string();
    if (!id.starts_with("batch_") || it->path().extension() != ".json") continue;
    const auto json = read_json(it->path().string(), {1 << 20, 16});
    const auto text = [&](const char* key) {
      return json->contains(key) && (*json)[key].is_string() ? (*json)[key].get<std::string>() : "";
    };
    if (!json.ok() || !json->is_object() || !json->contains("batch")) continue;
    const BatchRecord record{(*json)["batch"], text("owner"), text("output_id"), text("error_id")};
    const bool valid = is_batch(record.batch) && record.batch["id"] == Json(id) &&
                       record.output_id.starts_with("file-") && record.error_id.starts_with("file-");
    if (valid) records_[id] = record;
  }
}

// Removes the owner's oldest finished batches.
void BatchRecords::drop_old(const std::string& owner) {
  size_t own_count = 0;
  for (const auto& [id, record] : records_) own_count += record.owner == owner;
  for (; own_count > kMaxStoredBatches; --own_count) {
    auto oldest = records_.end();
    for (auto it = records_.begin(); it != records_.end(); ++it)
      if (it->second.owner == owner && is_over(it->second.batch) &&
          (oldest == records_.end() || it->second.batch["created_at"] < oldest->second.batch["created_at"]))
        oldest = it;
    if (oldest == records_.end()) return;
    ::unlink((files_.folder() + "/" + oldest->first + ".json").c_str());
    records_.erase(oldest);
  }
}

std::optional<BatchRecord> BatchRecords::next() {
  const std::lock_guard lock(mutex_);
  const BatchRecord* best = nullptr;
  const auto rank = [&](const BatchRecord& record) {
    const auto turn = turns_.find(record.owner);
    return std::pair(turn == turns_.end() ? 0 : turn->second, record.batch["created_at"].get<int64_t>());
  };
  for (const auto& [id, record] : records_)
    if (!is_over(record.batch) && (!best || rank(record) < rank(*best))) best = &record;
  if (!best) return std::nullopt;
  turns_[best->owner] = ++turn_;
  return *best;
}

bool BatchRecords::others_unfinished(const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(records_.begin(), records_.end(), [&](const auto& one) {
    return one.second.owner != owner && !is_over(one.second.batch);
  });
}

void BatchRecords::change_in_memory(const std::string& id, const Json& fields) {
  const std::lock_guard lock(mutex_);
  BatchRecord& record = records_.at(id);
  for (const auto& [key, value] : fields.items()) {
    // A starting batch must not overwrite a concurrent cancellation.
    if (key == "status" && value == "in_progress" && record.batch["status"] == "cancelling") continue;
    record.batch[key] = value;
  }
}

}  // namespace makar
