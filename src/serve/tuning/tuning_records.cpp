#include "serve/tuning/tuning_records.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <tuple>

#include "base/file.h"
#include "base/quote.h"
#include "serve/tuning/job.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

}  // namespace

TuningRecords::TuningRecords(std::string folder, TuningLimits limits)
    : folder_(std::move(folder)), limits_(limits) {
  load();
  remove_orphans();
  for (const auto& [id, record] : records_)
    if (record.model_deleted) this->folder(id).remove_model();
}

// Unreadable records are ignored and stay on disk, as do their folders.
void TuningRecords::load() {
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string id = it->path().stem().string();
    if (!id.starts_with(kTuningJobPrefix) || it->path().extension() != ".json") continue;
    const auto record = read_tuning_record(it->path().string(), id);
    if (!record) {
      unreadable_.push_back(it->path().string());
      continue;
    }
    last_number_ = std::max(last_number_, record->number);
    last_turn_ = std::max({last_turn_, record->turn, record->owner_turn});
    records_[id] = *record;
  }
}

// A folder is created before its record and deleted after it.
void TuningRecords::remove_orphans() const {
  std::vector<std::string> orphans;
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string id = it->path().filename().string();
    if (id.starts_with(kTuningJobPrefix) && it->is_directory(failed) && !path_exists(record_path(id)))
      orphans.push_back(id);
  }
  for (const std::string& id : orphans) folder(id).remove();
}

Status TuningRecords::save(const TuningRecord& record) const {
  return write_file(record_path(record.id()), dump(tuning_record_json(record)));
}

Status TuningRecords::make_room(const std::string& owner) {
  size_t stored = 0, unfinished = 0;
  std::vector<const TuningRecord*> old;  // ended without a model
  for (const auto& [id, record] : records_) {
    if (record.owner != owner) continue;
    ++stored;
    if (!record.is_over()) ++unfinished;
    if (record.is_over() && !record.has_model()) old.push_back(&record);
  }
  if (unfinished >= limits_.unfinished)
    return error_of(Error::Kind::kLimit, "memory", "{} jobs are unfinished; try again later", unfinished);
  std::sort(old.begin(), old.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  for (const TuningRecord* record : old) {
    if (stored < limits_.stored) break;
    const std::string id = record->id();
    if (folder(id).run_locked()) continue;  // its process is about to end
    if (::unlink(record_path(id).c_str()) != 0) return io_error(record_path(id), "delete");
    folder(id).remove();
    records_.erase(id);
    --stored;
  }
  if (stored < limits_.stored) return Done{};
  return error_of(Error::Kind::kLimit, "fine_tuning",
                  "{} jobs are stored, and none has ended without a model; delete models with DELETE "
                  "/v1/models/NAME",
                  stored);
}

Result<Json> TuningRecords::create(const std::string& owner, const Json& job, const std::string& training,
                                   const std::string& validation) {
  const std::lock_guard lock(mutex_);
  const auto before = turns();
  const auto turn = before.find(owner);
  MAKAR_RETURN_IF_ERROR(make_room(owner));
  TuningRecord record;
  record.owner_turn = turn == before.end() ? 0 : turn->second;
  record.job = job, record.owner = owner, record.number = last_number_ + 1;
  const std::string id = record.id();
  Status stored = folder(id).create(training, validation);
  if (stored.ok())
    if (const Status saved = save(record); !saved.ok())
      stored =
          error_of(saved.error().kind, "fine_tuning", "the job cannot be stored: {}", saved.error().message);
  if (!stored.ok()) {
    ::unlink(record_path(id).c_str());
    folder(id).remove();
    return stored.error();
  }
  last_number_ = record.number;
  records_[id] = std::move(record);
  folder(id).add_event(tuning_event("info", "Created fine-tuning job: " + id));
  return job;
}

Result<const TuningRecord*> TuningRecords::find_locked(const std::string& owner,
                                                       const std::string& id) const {
  const auto found = records_.find(id);
  if (found == records_.end() || found->second.owner != owner)
    return error_of(Error::Kind::kNotFound, "fine_tuning_job_id", "fine-tuning job {} not found", quote(id));
  return &found->second;
}

Result<Json> TuningRecords::find(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const TuningRecord* record, find_locked(owner, id));
  return record->job;
}

std::vector<Json> TuningRecords::list(const std::string& owner) const {
  std::vector<const TuningRecord*> own;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, record] : records_)
    if (record.owner == owner) own.push_back(&record);
  std::sort(own.begin(), own.end(), [](const auto* a, const auto* b) { return a->number > b->number; });
  std::vector<Json> out;
  for (const TuningRecord* record : own) out.push_back(record->job);
  return out;
}

Status TuningRecords::set_status(TuningRecord& record, const std::string& status, const Json& fields,
                                 const Json& event) {
  if (record.is_over())
    return error_at("fine_tuning_job_id", "the job has already ended: {}",
                    record.job["status"].get<std::string>());
  const Json before = record.job;
  record.job["status"] = status;
  for (const auto& [key, value] : fields.items()) record.job[key] = value;
  if (record.is_over()) record.job["finished_at"] = std::time(nullptr);
  if (const Status saved = save(record); !saved.ok()) {
    record.job = before;
    return error_of(saved.error().kind, "fine_tuning", "the job cannot be stored: {}", saved.error().message);
  }
  folder(record.id()).add_event(event);
  return Done{};
}

Result<Json> TuningRecords::cancel(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_RETURN_IF_ERROR(find_locked(owner, id));
  TuningRecord& record = records_.at(id);
  MAKAR_RETURN_IF_ERROR(
      set_status(record, "cancelled", Json::object(), tuning_event("info", "The job was cancelled")));
  return record.job;
}

// The record is changed first: a killed server leaves files without a model, never a model without files.
Status TuningRecords::delete_model(const std::string& owner, const std::string& name,
                                   const std::function<void(const std::string& name)>& unpublish) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, record] : records_) {
    if (record.owner != owner || record.job["status"] != "succeeded" || record.model() != name) continue;
    if (!record.model_deleted) {
      record.model_deleted = true;
      if (const Status saved = save(record); !saved.ok()) {
        record.model_deleted = false;
        return saved.error();
      }
      folder(id).add_event(tuning_event("info", "The fine-tuned model was deleted: " + name));
    }
    unpublish(name);
    folder(id).remove_model();
    return Done{};
  }
  return error_of(Error::Kind::kNotFound, "model", "{} is not a model that you have fine-tuned here",
                  quote(name));
}

std::map<std::string, uint64_t> TuningRecords::turns() const {
  std::map<std::string, uint64_t> out;
  for (const auto& [id, record] : records_)
    out[record.owner] = std::max({out[record.owner], record.turn, record.owner_turn});
  return out;
}

std::optional<std::string> TuningRecords::next(
    const std::function<bool(const std::string& id)>& skipped) const {
  const std::lock_guard lock(mutex_);
  const std::map<std::string, uint64_t> latest = turns();
  const TuningRecord* best = nullptr;
  const auto rank = [&](const TuningRecord& record) {
    return std::tuple(record.job["status"] != "running", latest.at(record.owner), record.number);
  };
  for (const auto& [id, record] : records_) {
    if (record.is_over() || (skipped && skipped(id))) continue;
    if (!best || rank(record) < rank(*best)) best = &record;
  }
  return best ? std::optional(best->id()) : std::nullopt;
}

std::optional<TuningRecord> TuningRecords::get(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(id);
  return found == records_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<TuningRecord> TuningRecords::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<TuningRecord> out;
  for (const auto& [id, record] : records_) out.push_back(record);
  return out;
}

bool TuningRecords::is_over(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(id);
  return found == records_.end() || found->second.is_over();
}

TuningRecord* TuningRecords::unfinished(const std::string& id) {
  const auto found = records_.find(id);
  return found == records_.end() || found->second.is_over() ? nullptr : &found->second;
}

bool TuningRecords::start(const std::string& id) {
  const std::lock_guard lock(mutex_);
  TuningRecord* record = unfinished(id);
  if (!record) return false;
  const bool again = record->turn > 0;
  if (!again) record->turn = ++last_turn_;
  return set_status(*record, "running", Json::object(),
                    tuning_event("info", again ? "Fine-tuning continues from the last checkpoint"
                                               : "Fine-tuning started"))
      .ok();
}

bool TuningRecords::fail(const std::string& id, const std::string& why) {
  const std::lock_guard lock(mutex_);
  TuningRecord* record = unfinished(id);
  if (!record) return false;
  return set_status(*record, "failed",
                    {{"error", {{"code", "failed"}, {"message", why}, {"param", nullptr}}}},
                    tuning_event("error", "The job failed: " + why))
      .ok();
}

bool TuningRecords::succeed(const std::string& id, const std::string& model,
                            const std::function<Status(const TuningRecord& record)>& publish) {
  const std::lock_guard lock(mutex_);
  TuningRecord* record = unfinished(id);
  if (!record) return false;
  const Status saved = set_status(*record, "succeeded", {{"fine_tuned_model", model}},
                                  tuning_event("info", "The job succeeded; new fine-tuned model: " + model));
  if (!saved.ok()) return false;
  if (const Status published = publish(*record); !published.ok())
    folder(id).add_event(tuning_event("warn", published.error().text()));
  return true;
}

void TuningRecords::set_progress(const std::string& id, int64_t tokens, double seconds) {
  const std::lock_guard lock(mutex_);
  TuningRecord* record = unfinished(id);
  if (!record) return;
  record->job["trained_tokens"] = tokens, record->seconds = seconds;
  (void)save(*record);
}

void TuningRecords::set_base(const std::string& id, const BaseIdentity& base) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(id);
  if (found == records_.end() || base_json(found->second.base) == base_json(base)) return;
  found->second.base = base;
  (void)save(found->second);
}

void TuningRecords::add_event(const std::string& id, const Json& event) {
  const std::lock_guard lock(mutex_);
  if (records_.contains(id)) folder(id).add_event(event);
}

}  // namespace makar
