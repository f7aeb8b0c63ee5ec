#include "cli/model_options.h"

#include "base/file.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "kernels/cpu_device.h"

namespace makar {

void declare_threads(Options& options, int64_t& threads) {
  options.group("Performance");
  options.add("-t --threads", &threads, "number of threads; 0 for one per core", "N");
}

void declare_device(Options& options, std::string& device) {
  options.group("Performance");
  options.add("--device", &device, "cpu, or cuda for an NVIDIA GPU; f32 results are bit-identical", "NAME")
      .choices = device_names();
}

void ModelOptions::declare_device(Options& options) {
  makar::declare_device(options, device);
  options.add(
      "--bf16", &bf16,
      "compute in bf16 with sums in f32: faster on a GPU, half the memory, close to the results in f32");
}

Result<std::unique_ptr<Device>> open_device_option(const std::string& device, int64_t threads) {
  auto opened = open_device(device, static_cast<int>(threads));
  if (!opened.ok()) {
    Error error = opened.error();
    if (error.place == "device") error.place = "--device";
    return error;
  }
  return opened;
}

Result<std::unique_ptr<Device>> open_device_option(const std::string& device, ThreadPool& pool) {
  if (device == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>(pool));
  return open_device_option(device, pool.threads());
}

namespace {

Options::Option& add_model(Options& options, std::string& model, const char* position,
                           const char* help_suffix) {
  options.group("Model");
  auto& path =
      options.add("-m --model", &model,
                  std::string("model: a Hugging Face folder, a GGUF file, or the name of a model that "
                              "makar list shows") +
                      help_suffix,
                  "MODEL");
  path.position = position;
  return path;
}

void add_shared(Options& options, ModelOptions& m) {
  options.add("--lora", &m.adapters,
              "folder of a PEFT adapter to apply; :WEIGHT scales it; repeat to add several", "DIR[:WEIGHT]");
  declare_threads(options, m.threads);
}

}  // namespace

void declare_model(Options& options, std::string& model, const char* position) {
  add_model(options, model, position, "").required = true;
}

void declare_optional_model(Options& options, std::string& model, const char* position) {
  add_model(options, model, position, "; the small one that comes with makar if not set");
}

void ModelOptions::declare_optional(Options& options, const char* position) {
  declare_optional_model(options, model, position);
  add_shared(options, *this);
}

void ModelOptions::declare_conditional(Options& options, const char* help_suffix) {
  add_model(options, model, "", help_suffix);
  add_shared(options, *this);
}

Status ModelOptions::use_default() {
  if (!model.empty()) return Done{};
  model = default_model();
  if (model.empty())
    return error_at("--model", "is required: makar's own model is not installed; makar pull downloads one");
  fmt::print(stderr,
             "makar: no model given: using {}, a small model of generated stories. It tells such stories and "
             "answers questions about them; it knows nothing else.\n",
             model_name(model));
  return Done{};
}

void ModelOptions::declare(Options& options, const char* position) {
  declare_model(options, model, position);
  add_shared(options, *this);
}

void ModelOptions::declare_chat(Options& options) {
  options.group("Model");
  options.add("--chat-template", &chat_template,
              "Jinja chat template to use instead of the model's own; @FILE reads a file", "TEXT");
}

std::string suggest_file(const std::string& value, const std::string& flag) {
  if (value.size() > 4096 || !is_file(value)) return "";
  return fmt::format("; {} is a file: to read it, write {} @{}", value, flag, value);
}

Result<std::string> text_or_file(const std::string& value, const std::string& flag) {
  if (!value.starts_with('@')) return value;
  auto text = read_file(value.substr(1), size_t{16} << 20);
  if (!text.ok()) return text.error().in(flag);
  return text;
}

Result<LanguageModel> open_model(const ModelOptions& options, Device& device, const MemoryBudget& budget) {
  MAKAR_TRY(LanguageModel language, LanguageModel::open(resolve_model(options.model), device,
                                                        {options.adapters, budget, options.offered,
                                                         WeightUse::kPacked, options.activations()}));
  for (const std::string& warning : language.warnings()) warn(warning);
  if (!options.chat_template.empty()) {
    MAKAR_TRY(const std::string source, text_or_file(options.chat_template, "--chat-template"));
    const std::string hint = suggest_file(options.chat_template, "--chat-template");
    if (!hint.empty()) return error_at("--chat-template", "expects the text of a template{}", hint);
    MAKAR_RETURN_IF_ERROR(language.use_template(source, "--chat-template"));
  }
  return language;
}

Result<ModelOnDevice> open_on_device(const ModelOptions& options, const EngineFlags& engine) {
  MAKAR_TRY(std::unique_ptr<Device> device, options.open_device());
  MAKAR_TRY(const MemoryBudget budget, engine.budget());
  MAKAR_TRY(LanguageModel language, open_model(options, *device, budget));
  return ModelOnDevice{std::move(device), std::move(language)};
}

}  // namespace makar
