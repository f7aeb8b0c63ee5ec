// What all requests that write share, however they choose their tokens.
#pragma once
#include <chrono>

#include "infer/job.h"
#include "infer/logprobs.h"
#include "infer/sampler.h"

namespace makar {

// Why an answer ended: an ending id, its length, the caller, the deadline, a token of low probability.
enum class Finish { kNone, kStop, kLength, kCaller, kTime, kUnsure };

struct WriteRequest {
  using Clock = std::chrono::steady_clock;

  std::vector<int64_t> prompt;
  int64_t max_new_tokens = 64;
  int64_t answers = 1;
  SamplerOptions sampler;     // without draws: the parts that work on the whole vocabulary
  std::vector<int64_t> stop;  // ids that end an answer; they are part of it
  int64_t logprobs = -1;      // alternatives reported with each token; -1: none, and no log-probabilities
  std::optional<Clock::time_point> deadline;  // the first token written after it is the last

  bool stops(int64_t token) const;
  bool late() const { return deadline && Clock::now() >= *deadline; }
};

// One token written.
struct Written {
  int64_t id = 0;
  Logprobs logprobs;  // where asked for
};

struct Answer {
  std::vector<Written> tokens;  // new ones; the ending id included
  Finish finish = Finish::kNone;
  double score = 0;  // of beams, of several compared

  std::vector<int64_t> ids() const;
  // The mean log-probability of its tokens; minus infinity where there are none.
  double mean_logprob() const;
};

class WriteJob : public Job {
 public:
  // Where there is an order among them, the best first.
  const std::vector<Answer>& answers() const { return answers_; }

 protected:
  // The prompt becomes the first branch; none where nothing is to be written.
  explicit WriteJob(const WriteRequest& request);
  std::vector<Answer> answers_;
};

}  // namespace makar
