// Beam search with n-best answers, as transformers defines it: scores are sums of log-probabilities divided
// by length^penalty. Diverse beam search (Vijayakumar et al., 2018) splits beams into groups that choose one
// after the other; a token is penalized once for each time an earlier group chose it at the same step.
#pragma once
#include <map>

#include "infer/decoding_job.h"

namespace makar {

enum class EarlyStop { kNo, kYes, kNever };
// "no" (or "false"), "yes" (or "true"), "never".
Result<EarlyStop> parse_early_stop(const std::string& name);

struct BeamRequest : DecodingRequest {
  int64_t beams = 4, groups = 1;  // beams: total over all groups
  double diversity_penalty = 0;
  double length_penalty = 1.0;
  EarlyStop early_stop = EarlyStop::kNo;
};

class BeamJob : public DecodingJob {
 public:
  explicit BeamJob(BeamRequest request);
  void on_logits(size_t branch, int64_t index, std::span<const float> logits) override;
  void advance(KvCache& cache) override;

 private:
  struct Candidate {
    double score;
    size_t branch;
    int64_t token;
  };
  struct Group {
    std::vector<size_t> branches = {0};
    std::vector<double> scores = {0.0};  // per branch
    std::vector<Answer> finished;        // at most one per beam, best first
    bool can_improve = true;             // a running beam might still beat the worst finished one
    bool done = false;
  };
  std::vector<Candidate> candidates(const Group& group);
  std::vector<Candidate> choose(Group& group, std::vector<Candidate> candidates);
  void add_finished(Group& group, const Candidate& candidate, double score, Finish reason) const;
  void finish(KvCache& cache);

  BeamRequest request_;
  Sampler sampler_;
  int64_t width_;  // beams per group
  std::vector<Group> groups_;
  std::vector<std::vector<float>> rows_;  // log-probabilities per branch
  std::map<int64_t, int64_t> chosen_;     // how often earlier groups chose each token in this step
  bool deadline_passed_ = false;
};

}  // namespace makar
