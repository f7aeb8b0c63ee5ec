// Options shared by the commands that use a model, declared once: the model, the output, sampling, limits,
// performance.
#pragma once
#include <optional>
#include <string>

#include "base/options.h"
#include "cli/engine_flags.h"
#include "infer/sampler_options.h"
#include "kernels/device.h"
#include "llm/text_generation.h"

namespace makar {

// "-t --threads", under Performance.
void declare_threads(Options& options, int64_t& threads);

// "--device", under Performance.
void declare_device(Options& options, std::string& device);
// Errors: unknown devices, no GPU. The CPU has `threads` threads, 0 for one per core, or those of `pool`.
Result<std::unique_ptr<Device>> open_compute(const std::string& device, int64_t threads);
Result<std::unique_ptr<Device>> open_compute(const std::string& device, ThreadPool& pool);

// "-m --model" alone, for commands that read the files themselves; also accepted as the positional argument
// `place`.
void declare_model(Options& options, std::string& model, const char* place);
// The same, but not required: see ModelOptions::use_default.
void declare_optional_model(Options& options, std::string& model, const char* place);

struct ModelOptions {
  std::string model, chat_template;
  std::vector<std::string> adapters;
  std::vector<std::string> offered;  // adapters that requests can select
  std::string device = "cpu";
  int64_t threads = 0;
  bool bf16 = false;
  DType activations() const { return bf16 ? DType::kBF16 : DType::kF32; }
  void declare_device(Options& options);  // --device and --bf16
  // If `place` is set, the model is also accepted as a positional argument of that name.
  void declare(Options& options, const char* place = "");
  // The same for commands that also run without a model; call use_default() after parsing.
  void declare_optional(Options& options, const char* place = "");
  // If no model is given, takes the one that comes with the program, and says what it is.
  Status use_default();
  void declare_chat(Options& options);  // --chat-template
  Result<std::unique_ptr<Device>> open_device() const { return open_compute(device, threads); }
};

// Opens the model and prints warnings about its files.
Result<LanguageModel> open_model(const ModelOptions& options, Device& device,
                                 const MemoryBudget& budget = {});

// A model and the device that runs it.
struct ModelOnDevice {
  std::unique_ptr<Device> device;
  LanguageModel language;
};
Result<ModelOnDevice> open_on_device(const ModelOptions& options, const EngineFlags& engine = {});

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

// Options that were given but have no effect, each with the reason: "--top-k has no effect at temperature 0".
std::vector<std::string> ineffective_options(const Options& options, const GenerationFlags& flags);

// "bleu", "chrf", "rouge-l", "f1" or "embedding".
Status read_mbr_metric(const std::string& name, const std::string& place, TextGenerationOptions& generation);

// The value itself, or the content of FILE for @FILE. `flag` names the option in errors.
Result<std::string> text_or_file(const std::string& value, const std::string& flag);
// "; FILE is a file: to read it, write --flag @FILE" if the value names a file, otherwise "".
std::string suggest_file(const std::string& value, const std::string& flag);

// Log-probabilities as JSON: {"token", "id", "logprob", "top": [...]}.
Json token_json(const GeneratedToken& written, const Tokenizer& tokenizer);

// Why all answers are empty, or "" if one is not. `chat`: the chat template was used.
std::string explain_empty(const TextGenerationResult& result, const LanguageModel& language, bool chat);

}  // namespace makar
