// Fine-tuning jobs while serving: a thread runs one job at a time in a separate process, and publishes the
// models of jobs that succeed. A job that a server leaves unfinished is continued by the next one from its
// last checkpoint.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "serve/files/file_store.h"
#include "serve/tuning/tuning_run.h"

namespace makar {

class TuningJobs {
 public:
  // Publishes the models of earlier jobs. The store must outlive this object.
  TuningJobs(FileStore& files, TuningOptions options);
  ~TuningJobs() { stop(); }
  // Stops the running process after its checkpoint; the next server resumes the job.
  void stop();

  Result<Json> create(const std::string& owner, const Json& body);
  Result<Json> find(const std::string& owner, const std::string& id) const {
    return records_.find(owner, id);
  }
  std::vector<Json> list(const std::string& owner) const { return records_.list(owner); }  // newest first
  Result<Json> cancel(const std::string& owner, const std::string& id);
  Result<std::vector<Json>> events(const std::string& owner, const std::string& id) const;  // newest first
  Result<std::vector<Json>> checkpoints(const std::string& owner, const std::string& id) const;
  // Deletes the model of one of the owner's jobs; requests in flight finish.
  Status delete_model(const std::string& owner, const std::string& name);

 private:
  // The base of a job's model, if it is served and still the same; may read all of it.
  Result<TuningBase> base_of(const TuningRecord& record);
  // Serves the model of a job, or logs and returns why not.
  Status publish(const TuningRecord& record, const Result<TuningBase>& base);
  void publish_earlier();
  void run();
  void work(const std::string& id);
  bool succeed(const TuningRecord& record);
  // A job that cannot run now is tried again later.
  void postpone(const std::string& id, const std::string& why);
  void clean(const std::string& id);  // deletes what a job that has ended does not need
  RunOutcome run_process(const std::string& id);
  // Waits up to `time`; whether the server stops or the job has ended.
  bool wait(const std::string& id, std::chrono::milliseconds time);
  bool stopping() const;

  FileStore& files_;
  const TuningOptions options_;
  TuningRecords records_;
  const std::shared_ptr<BaseIdentities> identities_;
  std::map<std::string, std::chrono::steady_clock::time_point> postponed_;  // until when; used by `thread_`
  std::set<std::string> warned_;  // of jobs, with the reason; used by `thread_`
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace makar
