// The thread that brings batches on: one after the other, a few lines at a time, each a request like any
// other but behind all that somebody waits for. What is answered is on disk at once, so a new process goes on
// where the last one ended.
#pragma once
#include <atomic>
#include <functional>
#include <thread>

#include "serve/files/batch_records.h"
#include "serve/http/http.h"

namespace makar {

struct LineMail;

class BatchRunner {
 public:
  // Answers a request of a batch through `reply`, at any time and from any thread, or drops it.
  using Send =
      std::function<void(const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply)>;
  // `together`: lines under way at a time. The stores outlive it.
  BatchRunner(FileStore& files, BatchRecords& records, Send send, int64_t together);
  ~BatchRunner() { stop(); }
  // Lines that are under way are let go; they are done when the batch is taken up again.
  void stop();
  void wake();  // there is a new batch, or one was cancelled

 private:
  struct Work;  // a batch under way

  void run();
  void work(const BatchRecord& record);
  Status begin(Work& work);
  void send_lines(Work& work);
  Status take_answers(Work& work);
  Status finish(Work& work, const char* status);
  void let_go(Work& work);
  static Json counts(const Work& work);

  FileStore& files_;
  BatchRecords& records_;
  Send send_;
  const size_t together_;
  const std::shared_ptr<LineMail> mail_;
  uint64_t round_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace makar
