// What all decoding jobs share, independent of how they choose tokens.
#pragma once
#include <chrono>

#include "infer/job.h"
#include "infer/logprobs.h"
#include "infer/sampler.h"

namespace makar {

// Why an answer ended: stop id, length limit, caller, deadline, low-probability token.
enum class Finish { kUnfinished, kStop, kLength, kStoppedByCaller, kTime, kLowProbability };

struct DecodingRequest {
  using Clock = std::chrono::steady_clock;

  std::vector<int64_t> prompt;
  int64_t max_new_tokens = 64;
  int64_t answers = 1;
  SamplerOptions sampler;     // beam and contrastive search apply only the whole-vocabulary samplers
  std::vector<int64_t> stop;  // ids that end an answer; included in it
  int64_t logprobs = -1;      // alternatives reported with each token; -1: none, and no log-probabilities
  std::optional<Clock::time_point> deadline;  // the first token generated after it is the last

  bool stops(int64_t token) const;
  bool deadline_passed() const { return deadline && Clock::now() >= *deadline; }
};

// One generated token.
struct GeneratedToken {
  int64_t id = 0;
  Logprobs logprobs;  // if requested
};

struct Answer {
  std::vector<GeneratedToken> tokens;  // generated tokens, stop id included
  Finish finish = Finish::kUnfinished;
  double score = 0;  // set by beam search and best-of

  std::vector<int64_t> ids() const;
  // Mean log-probability of the tokens; -infinity if there are none.
  double mean_logprob() const;
};

class DecodingJob : public Job {
 public:
  // Best first, if the answers are ranked.
  const std::vector<Answer>& answers() const { return answers_; }

 protected:
  // The prompt becomes the first branch; no branch if max_new_tokens < 1.
  explicit DecodingJob(const DecodingRequest& request);
  std::vector<Answer> answers_;
};

}  // namespace makar
