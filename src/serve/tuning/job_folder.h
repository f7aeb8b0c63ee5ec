// The files of one fine-tuning job: links to its data, the folder of its run, its events, the output of its
// process. Every function may be repeated after the process was killed inside it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

// The last `max_bytes` of a text file at most, from the beginning of a line; empty if it cannot be read.
std::string file_tail(const std::string& path, size_t max_bytes);

// Names of files in the folder of a job; its process runs there and knows no other paths.
constexpr const char *kTrainingName = "training.jsonl", *kValidationName = "validation.jsonl",
                     *kRunName = "run", *kBaseLink = "served_base";

// What the process of a job reads and writes, relative to the folder of the job.
struct TuningFiles {
  std::string training, validation;  // JSONL; validation may be empty
  std::string folder;                // of the run: checkpoints, log.jsonl, the adapter
  int64_t validation_records = 0;
};

class JobFolder {
 public:
  JobFolder(const std::string& root, const std::string& id) : id_(id), path_(root + "/" + id) {}
  const std::string& path() const { return path_; }
  std::string run() const { return in_folder(kRunName); }
  std::string log() const { return run() + "/log.jsonl"; }
  std::string output() const { return in_folder("output.txt"); }
  std::string process_stat() const { return in_folder("process.txt"); }  // of the last process
  TuningFiles files(bool validation) const;

  // Creates the folder with links to the data (`validation` may be empty): clients may delete their files. An
  // error's place is the field of the request.
  Status create(const std::string& training, const std::string& validation) const;
  void remove() const;
  // Deletes what an ended job does not need: data, checkpoints (their list stays), and of texts all but the
  // end. `succeeded`: the adapter stays.
  void clean(bool succeeded) const;
  void remove_model() const;  // the folder of the run

  // Errors are ignored: a full disk must not end a job.
  void add_event(const Json& event) const;
  std::vector<Json> events() const;  // the newest first, at most kMaxEvents
  // The last step whose event has this metric; 0: none.
  int64_t last_step_with_event(const char* metric) const;
  std::vector<Json> checkpoints() const;  // the newest first
  std::string last_output_line() const;
  // Whether the run has written its model.
  bool run_finished() const;
  // Whether a process has locked the folder of the run (train/run_folder.h).
  bool run_locked() const;
  uint64_t bytes() const;  // of all files but the data

  static constexpr size_t kMaxEvents = 1000;

 private:
  std::string in_folder(const std::string& name) const { return path_ + "/" + name; }
  std::string events_path() const { return in_folder("events.jsonl"); }
  std::string list_path() const { return in_folder("checkpoints.json"); }  // of deleted checkpoints

  std::string id_, path_;
};

}  // namespace makar
