// The thread that runs batches: one batch at a time, a few lines in flight, each a request with a lower
// priority than all interactive ones. Every answer is written to disk immediately, so a new process resumes
// where the previous one stopped.
#pragma once
#include <atomic>
#include <functional>
#include <thread>

#include "serve/files/batch_records.h"
#include "serve/http/http.h"

namespace makar {

struct LineResults;

class BatchRunner {
 public:
  // Starts one request of a batch. `reply` is answered later from any thread, or destroyed unanswered.
  using Send =
      std::function<void(const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply)>;
  // Sends at most `max_in_flight` lines at a time. The stores must outlive the runner.
  BatchRunner(FileStore& files, BatchRecords& records, Send send, int64_t max_in_flight);
  ~BatchRunner() { stop(); }
  // Cancels lines in flight; they run again when the batch resumes.
  void stop();
  void wake();  // after a batch is added or cancelled

 private:
  struct Work;  // the running batch

  void run();
  void work(const BatchRecord& record);
  Status begin(Work& work);
  void send_lines(Work& work);
  Status take_answers(Work& work);
  Status finish(Work& work, const char* status);
  void cancel_lines(Work& work);
  static Json counts(const Work& work);

  FileStore& files_;
  BatchRecords& records_;
  Send send_;
  const size_t max_in_flight_;
  const std::shared_ptr<LineResults> results_;
  uint64_t round_ = 0;  // counts calls of work()
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace makar
