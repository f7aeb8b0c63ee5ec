// A model that runs in the engine: any architecture, dtype or adapter that LanguageModel opens.
#pragma once
#include "eval/model.h"

namespace makar {

class EngineModel : public EvalModel {
 public:
  // `engine` and `language` must outlive the object.
  EngineModel(Engine& engine, const LanguageModel& language, Json identity)
      : engine_(engine), language_(language), identity_(std::move(identity)) {}
  std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) override;
  std::vector<Result<Loglikelihood>> loglikelihood_rolling(std::span<const std::string> texts) override;
  std::vector<Result<std::string>> generate_until(std::span<const UntilRequest> requests) override;
  std::vector<Result<UntilAnswer>> generate_block(std::span<const UntilRequest> requests) override;
  Json identity() const override { return identity_; }

 private:
  Engine& engine_;
  const LanguageModel& language_;
  Json identity_;
};

// A hash of the names, sizes and modification times of a model's files: a file, or all files of a folder.
Result<std::string> model_fingerprint(const std::string& path);

}  // namespace makar
