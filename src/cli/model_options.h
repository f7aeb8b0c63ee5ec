// Options shared by the commands that use a model: which one, threads, what to write.
#pragma once
#include <optional>
#include <string>

#include "base/options.h"
#include "cli/engine_flags.h"
#include "infer/sampler_options.h"
#include "llm/write.h"

namespace makar {

struct ModelOptions {
  std::string model, chat_template;
  std::vector<std::string> adapters;
  std::vector<std::string> offered;  // adapters that requests choose among
  int64_t threads = 0;
  void declare(Options& options);
  void declare_chat(Options& options);  // --chat-template
};

// Opens the model, says what is odd about its files, or gives the error.
Result<LanguageModel> open_model(const ModelOptions& options, ThreadPool& pool,
                                 const MemoryBudget& budget = {});

struct WritingOptions {
  WriteOptions write;
  EngineFlags engine;
  std::string early = "no", mbr_metric;     // empty: chrf, or embedding where there is a model for it
  std::string mbr_model;                    // embeds the answers that are compared
  std::string draft;                        // a smaller model that guesses ahead
  std::string json_schema, grammar, regex;  // texts, or @FILE
  void declare(Options& options);
  // Reads what is given by name and checks all bounds; bad usage where it fails.
  Status check();
  // The constraint of --json-schema, --grammar or --regex, and the model of --model-draft.
  Status prepare(const LanguageModel& language, ThreadPool& pool);
  // The options of the engine, once everything is loaded that takes memory beside it.
  Result<EngineOptions> engine_options(const Model& model) const;

 private:
  Status constrain(const LanguageModel& language);
  Status open_draft(const LanguageModel& language, ThreadPool& pool);
  Status open_embedder(ThreadPool& pool);
  std::shared_ptr<LoadedModel> draft_model_;
};

// "bleu", "chrf", "rouge-l", "f1" or "embedding".
Status read_mbr_metric(const std::string& name, const std::string& place, WriteOptions& write);

// A value given as it is, or as @FILE.
Result<std::string> text_or_file(const std::string& value);

// Log-probabilities as JSON: {"token", "id", "logprob", "top": [...]}.
Json written_json(const Written& written, const Tokenizer& tokenizer);

}  // namespace makar
