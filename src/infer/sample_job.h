// Generation by sampling (or greedy decoding): one prompt, one or several answers.
#pragma once
#include <functional>

#include "infer/constraint.h"
#include "infer/decoding_job.h"
#include "infer/draft.h"

namespace makar {

struct SampleRequest : DecodingRequest {                                     // answer i uses seed + i
  std::function<bool(int64_t answer, const GeneratedToken&)> on_token = {};  // false ends that answer
  std::shared_ptr<Constraint> constraint = {};
  std::shared_ptr<Drafter> drafter = {};
  int64_t draft_tokens = 4;
  double stop_below = 0;  // a token of lower probability ends the answer
  int64_t window = 0;     // > 0: a longer text drops its older half and is recomputed
};

class SampleJob : public DecodingJob {
 public:
  explicit SampleJob(SampleRequest request);
  void on_logits(size_t branch, int64_t index, std::span<const float> logits) override;
  int64_t device_tokens(size_t branch) const override;
  kernels::RowSampler device_sampler(size_t branch) const override;
  void on_token(size_t branch, int64_t index, int64_t token) override;
  void advance(KvCache& cache) override;
  bool blocked(size_t branch) override;
  bool independent_branches() const override { return true; }

  int64_t drafted_tokens() const { return drafted_tokens_; }
  int64_t accepted_tokens() const { return accepted_tokens_; }

 private:
  // State of a branch besides its tokens.
  struct State {
    size_t answer = 0;
    Sampler sampler;
    std::unique_ptr<Constraint> constraint;
    std::vector<int64_t> dropped;  // tokens dropped from a full window
    int64_t committed = 0;         // length without draft tokens
    std::vector<int64_t> chosen;   // tokens chosen in this step
    bool draft_rejected = false;   // the logits of later draft tokens are ignored
    bool finished = false;
  };
  int64_t choose(State& state, std::span<const int64_t> tokens, std::span<const float> logits);
  void append(State& state, int64_t token, std::span<const float> logits);
  void slide(KvCache& cache, State& state, Branch& branch) const;
  void draft(State& state, Branch& branch);

  SampleRequest request_;
  std::vector<State> states_;
  std::vector<float> scratch_;
  std::vector<float> prompt_logits_;  // after the last prompt token, shared by all answers
  int64_t drafted_tokens_ = 0, accepted_tokens_ = 0;
};

}  // namespace makar
