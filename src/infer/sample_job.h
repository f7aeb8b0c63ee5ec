// Writing by sampling (or greedily): one prompt, one or several answers.
#pragma once
#include <functional>

#include "infer/constraint.h"
#include "infer/draft.h"
#include "infer/write_job.h"

namespace makar {

struct SampleRequest : WriteRequest {                                 // answer i is drawn with seed + i
  std::function<bool(int64_t answer, const Written&)> on_token = {};  // false ends that answer
  std::shared_ptr<Constraint> constraint = {};
  std::shared_ptr<Drafter> drafter = {};
  int64_t draft_tokens = 4;
  double stop_below = 0;  // a token of a smaller probability is the last
  int64_t window = 0;     // > 0: a text of more tokens forgets its older half and is computed again
};

class SampleJob : public WriteJob {
 public:
  explicit SampleJob(SampleRequest request);
  void row(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override;
  bool apart() const override { return true; }

  int64_t guessed() const { return guessed_; }
  int64_t accepted() const { return accepted_; }

 private:
  // What belongs to a branch beside its tokens.
  struct State {
    size_t answer = 0;
    Sampler sampler;
    std::unique_ptr<Constraint> constraint;
    std::vector<int64_t> forgotten;        // tokens that a full window has lost
    int64_t settled = 0;                   // tokens before the guesses
    std::vector<int64_t> chosen;           // in this step
    bool wrong = false, finished = false;  // the guesses that follow are not worth looking at
  };
  int64_t choose(State& state, std::span<const int64_t> tokens, std::span<const float> logits);
  void write(State& state, int64_t token, std::span<const float> logits);
  void slide(KvCache& cache, State& state, Branch& branch) const;
  void guess(State& state, Branch& branch);

  SampleRequest request_;
  std::vector<State> states_;
  std::vector<float> scratch_, first_;  // first_: the logits after the prompt, from which all answers begin
  int64_t guessed_ = 0, accepted_ = 0;
};

}  // namespace makar
