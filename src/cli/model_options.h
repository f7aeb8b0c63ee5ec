// Options shared by the commands that use a model, declared once: the model, its chat template, the device.
#pragma once
#include <optional>
#include <string>

#include "base/options.h"
#include "cli/engine_flags.h"
#include "kernels/device.h"
#include "llm/language_model.h"

namespace makar {

// "-t --threads", under Performance.
void declare_threads(Options& options, int64_t& threads);

// "--device", under Performance.
void declare_device(Options& options, std::string& device);
// Errors: unknown devices, no GPU. The CPU has `threads` threads, 0 for one per core, or those of `pool`.
Result<std::unique_ptr<Device>> open_device_option(const std::string& device, int64_t threads);
Result<std::unique_ptr<Device>> open_device_option(const std::string& device, ThreadPool& pool);

// "-m --model" alone, for commands that read the files themselves; also accepted as the positional argument
// `position`.
void declare_model(Options& options, std::string& model, const char* position);
// The same, but not required: see ModelOptions::use_default.
void declare_optional_model(Options& options, std::string& model, const char* position);

struct ModelOptions {
  std::string model, chat_template;
  std::vector<std::string> adapters;
  std::vector<std::string> offered;  // adapters that requests can select
  std::string device = "cpu";
  int64_t threads = 0;
  bool bf16 = false;
  DType activations() const { return bf16 ? DType::kBF16 : DType::kF32; }
  void declare_device(Options& options);  // --device and --bf16
  // If `position` is set, the model is also accepted as a positional argument of that name.
  void declare(Options& options, const char* position = "");
  // The same for commands that also run without a model; call use_default() after parsing.
  void declare_optional(Options& options, const char* position = "");
  // The same for commands that need a model only with some options; `help_suffix` is added to the help text.
  void declare_conditional(Options& options, const char* help_suffix);
  // If no model is given, uses the one that comes with the program and prints a note about it.
  Status use_default();
  void declare_chat(Options& options);  // --chat-template
  Result<std::unique_ptr<Device>> open_device() const { return open_device_option(device, threads); }
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

// The value itself, or the content of FILE for @FILE. `flag` names the option in errors.
Result<std::string> text_or_file(const std::string& value, const std::string& flag);
// "; FILE is a file: to read it, write --flag @FILE" if the value names a file, otherwise "".
std::string suggest_file(const std::string& value, const std::string& flag);

}  // namespace makar
