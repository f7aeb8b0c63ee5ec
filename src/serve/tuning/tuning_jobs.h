// Fine-tuning jobs while serving: a thread runs one job at a time in a separate process, and publishes the
// models of jobs that succeed. A job that a server leaves unfinished is continued by the next one from its
// last checkpoint.
#pragma once
#include <condition_variable>
#include <mutex>
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
  // Serves the model of a job if its base is served and still the same; an error is logged too.
  Status publish(const TuningRecord& record);
  Status serve_model(const TuningRecord& record);
  void publish_earlier();
  void run();
  void clean_earlier();
  void work(const std::string& id);
  RunOutcome run_process(const std::string& id);
  // Waits up to `time`; whether the server stops or the job has ended.
  bool wait(const std::string& id, std::chrono::milliseconds time);
  bool stopping() const;

  FileStore& files_;
  const TuningOptions options_;
  TuningRecords records_;
  BaseIdentities identities_;  // used by the constructor and `thread_`
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace makar
