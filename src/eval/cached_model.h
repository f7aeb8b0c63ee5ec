// Wraps a model and caches its responses, so that a stopped run resumes. For judges, whose requests do not
// come from a task.
#pragma once
#include "eval/cache.h"
#include "eval/model.h"

namespace makar {

class CachedModel : public EvalModel {
 public:
  CachedModel(EvalModel& model, EvalCache& cache) : model_(model), cache_(cache) {}
  std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) override;
  std::vector<Result<Loglikelihood>> loglikelihood_rolling(std::span<const std::string> texts) override;
  std::vector<Result<std::string>> generate_until(std::span<const UntilRequest> requests) override;
  std::vector<Result<UntilAnswer>> generate_block(std::span<const UntilRequest> requests) override;
  Json identity() const override { return model_.identity(); }

 private:
  EvalModel& model_;
  EvalCache& cache_;
};

}  // namespace makar
