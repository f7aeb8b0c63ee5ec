// Options shared by the commands that generate text, declared once: output, search, sampling, limits,
// speculative decoding.
#pragma once
#include <string>

#include "cli/model_options.h"
#include "infer/sampler_options.h"
#include "llm/text_generation.h"

namespace makar {

// Speculative decoding: the flags, and the draft model.
struct SpeculationOptions {
  std::string draft;  // path of the draft model
  Speculation speculation;
  void declare(Options& options);
  // Loads the draft model. Errors: a different vocabulary, more memory than the budget.
  Status open(const LanguageModel& language, Device& device, const MemoryBudget& budget);
  // Bytes of the draft model's cache per page of the main model's cache.
  int64_t cache_page_bytes() const;

 private:
  std::shared_ptr<LoadedModel> loaded_;
};

struct GenerationFlags {
  TextGenerationOptions generation;
  EngineFlags engine;
  SpeculationOptions speculation;
  std::string early = "no", mbr_metric;     // empty: chrf, or embedding with --mbr-model
  std::string mbr_model;                    // embeds the answers that are compared
  std::string json_schema, grammar, regex;  // texts, or @FILE
  void declare(Options& options);
  // Parses names and checks bounds; warns about options without effect. Errors are bad usage.
  Status check(const Options& options);
  // Builds the constraint of --json-schema, --grammar or --regex, and loads the other models.
  Status prepare(const LanguageModel& language, Device& device);
  // The engine's options; call it after everything else that takes memory is loaded.
  Result<EngineOptions> engine_options(const Model& model) const;

 private:
  Status constrain(const LanguageModel& language);
  Status open_embedder(Device& device);
};

// Options that were given but have no effect, each with the reason: "--draft-max has no effect:
// nothing is drafted; set --model-draft or --lookup".
std::vector<std::string> ineffective_options(const Options& options, const GenerationFlags& flags);

// "bleu", "chrf", "rouge-l", "f1" or "embedding".
Status read_mbr_metric(const std::string& name, const std::string& place, TextGenerationOptions& generation);

// Log-probabilities as JSON: {"token", "id", "logprob", "top": [...]}.
Json token_json(const GeneratedToken& generated, const Tokenizer& tokenizer);

// A note that says why all answers are empty; "" if one has text. `chat`: the chat template was used.
std::string explain_empty(const TextGenerationResult& result, const LanguageModel& language, bool chat);

}  // namespace makar
