// Options shared by the commands that use a model: which one, threads, what to write.
#pragma once
#include <optional>
#include <string>

#include "base/options.h"
#include "infer/sampler_options.h"
#include "llm/write.h"

namespace makar {

struct ModelOptions {
  std::string model;
  std::vector<std::string> adapters;
  int64_t threads = 0;
  void declare(Options& options);
};

// Opens the model, says what is odd about its files, or gives the error.
Result<LanguageModel> open_model(const ModelOptions& options, ThreadPool& pool);

struct WritingOptions {
  WriteOptions write;
  double mem_budget = 0;
  std::string draft;                        // a smaller model that guesses ahead
  std::string json_schema, grammar, regex;  // texts, or @FILE
  void declare(Options& options);
  Status check() const;
  EngineOptions engine(const Model& model) const;
  // The constraint of --json-schema, --grammar or --regex; none without them.
  Status constrain(const LanguageModel& language);
  // Opens the model of --model-draft.
  Status open_draft(const LanguageModel& language, ThreadPool& pool);

 private:
  std::shared_ptr<LoadedModel> draft_model_;
};

// Log-probabilities as JSON: {"token", "id", "logprob", "top": [...]}.
Json written_json(const Written& written, const Tokenizer& tokenizer);

}  // namespace makar
