// Beam search with n-best answers, as transformers defines it: scores are sums of log-probabilities divided
// by length^penalty.
#pragma once
#include "infer/job.h"
#include "infer/sampler.h"

namespace makar {

enum class EarlyStop { kNo, kYes, kNever };

struct BeamRequest {
  std::vector<int64_t> prompt;
  int64_t max_new_tokens = 64;
  int64_t beams = 4, answers = 1;
  double length_penalty = 1.0;
  EarlyStop early = EarlyStop::kNo;
  std::vector<int64_t> stop;
  SamplerOptions sampler;  // the parts that work on the whole vocabulary: penalties, no-repeat, bias
};

class BeamJob : public Job {
 public:
  explicit BeamJob(BeamRequest request);
  void row(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override;

  struct Answer {
    std::vector<int64_t> tokens;  // new ones; the ending id included
    double score = 0;
  };
  // Best first.
  const std::vector<Answer>& answers() const { return finished_; }

 private:
  struct Candidate {
    double score;
    size_t branch;
    int64_t token;
  };
  void keep(const Candidate& candidate, double score);
  void finish(KvCache& cache);

  BeamRequest request_;
  Sampler sampler_;
  std::vector<double> scores_;         // of the branches
  std::vector<Candidate> candidates_;  // of this step: the best of each branch
  std::vector<Answer> finished_;       // at most `beams`, best first
  std::vector<float> scratch_;
  bool hopeful_ = true;  // a running beam might still beat the worst finished one
};

}  // namespace makar
