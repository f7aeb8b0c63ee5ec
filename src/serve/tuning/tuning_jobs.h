// Fine-tuning jobs while serving: records in the folder of the file store, and the thread that runs one job
// at a time in a separate process with limited threads, memory and priority. A job that a server leaves
// unfinished is resumed by the next one from its last checkpoint.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/files/file_store.h"

namespace makar {

// The files of a job for its process.
struct TuningFiles {
  std::string training, validation;  // JSONL; validation may be empty
  std::string folder;                // of the run: checkpoints, log.jsonl, the adapter
};

struct TuningOptions {
  // The command line of a job's process; an error rejects the job (such as an unknown model). If empty, the
  // server accepts no jobs.
  std::function<Result<std::vector<std::string>>(const Json& job, const TuningFiles& files)> command;
  // Called when a job has succeeded, and at startup for each job that succeeded before.
  std::function<void(const Json& job, const std::string& adapter)> publish;
  int64_t memory = int64_t{8} << 30;  // bytes that the process may allocate
};

class TuningJobs {
 public:
  // The store must outlive this object.
  TuningJobs(FileStore& files, TuningOptions options);
  ~TuningJobs() { stop(); }
  // Stops the running process after its checkpoint; the next server resumes the job.
  void stop();

  Result<Json> create(const std::string& owner, const Json& body);
  Result<Json> find(const std::string& owner, const std::string& id) const;
  Result<Json> cancel(const std::string& owner, const std::string& id);
  std::vector<Json> list(const std::string& owner) const;                                   // newest first
  Result<std::vector<Json>> events(const std::string& owner, const std::string& id) const;  // newest first
  Result<std::vector<Json>> checkpoints(const std::string& owner, const std::string& id) const;

 private:
  struct Entry {
    Json job;
    std::string owner;
    bool cancelling = false;
    uint64_t number = 0;  // jobs run in the order of their numbers
  };
  void load();
  Status save(const Entry& entry) const;
  void run();
  void work(const std::string& id);
  Result<std::vector<std::string>> prepare(const Json& job, const std::string& owner) const;
  // Waits for the process; passes its log on as events. Returns whether it ended by itself.
  bool watch(const std::string& id, int process);
  struct LogPosition {
    uint64_t bytes = 0;  // of the log, read so far
    int64_t step = 0, tokens = 0;
  };
  void report_log(const std::string& id, LogPosition& position, bool report);
  void change(const std::string& id, const Json& fields);
  void add_event(const std::string& id, const Json& event) const;
  bool cancelled(const std::string& id) const;
  std::string folder(const std::string& id) const { return files_.folder() + "/" + id; }

  FileStore& files_;
  const TuningOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

// Starts a program in its own process group, with lower priority, a limit on allocated memory, and its output
// in `log`; it is killed when the parent process ends. Returns the process id.
Result<int> start_limited(const std::vector<std::string>& command, const std::string& log, int64_t memory);

}  // namespace makar
