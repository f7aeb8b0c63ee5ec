// Writing by sampling (or greedily): one prompt, one or several answers.
#pragma once
#include <functional>

#include "infer/constraint.h"
#include "infer/draft.h"
#include "infer/job.h"
#include "infer/logprobs.h"
#include "infer/sampler.h"

namespace makar {

enum class Finish { kNone, kStop, kLength, kCaller };

// One token written.
struct Written {
  int64_t id = 0;
  Logprobs logprobs;  // where asked for
};

struct SampleRequest {
  std::vector<int64_t> prompt;
  int64_t max_new_tokens = 64;
  int64_t answers = 1;  // answer i is drawn with seed + i
  SamplerOptions sampler;
  std::vector<int64_t> stop;  // ids that end an answer; they are part of it
  int64_t logprobs = -1;      // alternatives reported with each token; -1: none, and no log-probabilities
  std::function<bool(int64_t answer, const Written&)> on_token;  // false ends that answer
  std::shared_ptr<Constraint> constraint;
  std::shared_ptr<Drafter> drafter;
  int64_t draft_tokens = 4;
};

class SampleJob : public Job {
 public:
  explicit SampleJob(SampleRequest request);
  void row(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override;

  struct Answer {
    std::vector<Written> tokens;
    Finish finish = Finish::kNone;
  };
  const std::vector<Answer>& answers() const { return answers_; }
  int64_t guessed() const { return guessed_; }
  int64_t accepted() const { return accepted_; }

 private:
  // What belongs to a branch beside its tokens.
  struct State {
    size_t answer = 0;
    Sampler sampler;
    std::unique_ptr<Constraint> constraint;
    int64_t settled = 0;                   // tokens before the guesses
    std::vector<int64_t> chosen;           // in this step
    bool wrong = false, finished = false;  // the guesses that follow are not worth looking at
  };
  int64_t choose(State& state, std::span<const int64_t> tokens, std::span<const float> logits);
  void write(State& state, int64_t token, std::span<const float> logits);
  void guess(State& state, Branch& branch);

  SampleRequest request_;
  std::vector<State> states_;
  std::vector<Answer> answers_;
  std::vector<float> scratch_, first_;  // first_: the logits after the prompt, from which all answers begin
  int64_t guessed_ = 0, accepted_ = 0;
};

}  // namespace makar
