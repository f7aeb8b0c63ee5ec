// The fine-tuning jobs of a server: one file per job, and every change of a job's status under one lock.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/tuning/job_folder.h"
#include "serve/tuning/tuning_record.h"

namespace makar {

struct TuningLimits {
  size_t unfinished = 16, stored = 100;  // jobs per owner
};

class TuningRecords {
 public:
  // Loads the records of `folder` and completes deletions that a killed server began.
  TuningRecords(std::string folder, TuningLimits limits);

  // Stores a new job whose data are the files `training` and `validation` (may be empty). If the owner has
  // too many jobs, the oldest that have ended without a model are deleted; kLimit if there is none.
  Result<Json> create(const std::string& owner, const Json& job, const std::string& training,
                      const std::string& validation);
  Result<Json> find(const std::string& owner, const std::string& id) const;
  std::vector<Json> list(const std::string& owner) const;  // newest first
  Result<Json> cancel(const std::string& owner, const std::string& id);
  // Deletes the model of one of the owner's jobs. `unpublish` is called before its files are deleted. May be
  // repeated.
  Status delete_model(const std::string& owner, const std::string& name,
                      const std::function<void(const std::string& name)>& unpublish);

  // The job to run next, of those that are not `skipped`: one that a server left running; else the oldest of
  // the owner whose latest start is the longest ago.
  std::optional<std::string> next(const std::function<bool(const std::string& id)>& skipped = {}) const;
  std::optional<TuningRecord> get(const std::string& id) const;
  std::vector<TuningRecord> all() const;
  bool is_over(const std::string& id) const;  // also if it is deleted
  // Files that look like records and are not.
  const std::vector<std::string>& unreadable() const { return unreadable_; }
  // Changes of status; false: nothing changes, because the job has ended (it was cancelled) or the change
  // cannot be stored.
  bool start(const std::string& id);
  bool fail(const std::string& id, const std::string& why);
  // `publish` serves the model; no client sees the job as succeeded before.
  bool succeed(const std::string& id, const std::string& model,
               const std::function<Status(const TuningRecord& record)>& publish);
  // What a running job has done so far; ignored when it has ended, and not an error on a full disk.
  void set_progress(const std::string& id, int64_t tokens, double seconds);
  void set_base(const std::string& id, const BaseIdentity& base);  // also when it has ended
  void add_event(const std::string& id, const Json& event);
  JobFolder folder(const std::string& id) const { return {folder_, id}; }

 private:
  void load();
  void remove_orphans() const;
  Status save(const TuningRecord& record) const;
  std::string record_path(const std::string& id) const { return folder_ + "/" + id + ".json"; }
  // The only function that changes a status: sets it with `fields`, saves and adds the event. An error
  // changes nothing: the job has ended, or cannot be saved.
  Status set_status(TuningRecord& record, const std::string& status, const Json& fields, const Json& event);
  Status make_room(const std::string& owner);
  std::map<std::string, uint64_t> turns() const;    // of the latest start of each owner
  TuningRecord* unfinished(const std::string& id);  // null: the job has ended
  Result<const TuningRecord*> find_locked(const std::string& owner, const std::string& id) const;

  const std::string folder_;
  const TuningLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, TuningRecord> records_;  // by id
  std::vector<std::string> unreadable_;
  uint64_t last_number_ = 0, last_turn_ = 0;
};

}  // namespace makar
