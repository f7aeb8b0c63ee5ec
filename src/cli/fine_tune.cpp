#include "cli/fine_tune.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "models/source.h"
#include "quant/in_memory.h"
#include "train/token_roles.h"

namespace makar {
namespace {

// Rejects adapter options when no adapter is trained: they would be ignored.
Status check_adapter_options(const FineTuneOptions& s, const Options& options) {
  if (s.has_adapter()) return Done{};
  std::vector<std::string> ignored;
  for (const char* name : {"--quantize-base", "--lora-r", "--lora-alpha", "--lora-dropout",
                           "--lora-target-modules", "--lora-modules-to-save", "--use-rslora", "--use-dora"})
    if (options.given(name)) {
      std::string key(name + 2);
      std::replace(key.begin(), key.end(), '-', '_');
      ignored.push_back(std::move(key));
    }
  if (ignored.empty()) return Done{};
  return error_at(
      ignored[0], "{} without an adapter: add --adapter {}, or remove {} to train all weights",
      ignored.size() == 1 ? "has no effect" : fmt::format("{} have no effect", fmt::join(ignored, ", ")),
      s.quantize_base.empty() ? "lora" : "qlora", ignored.size() == 1 ? "it" : "them");
}

double mebibytes(const Model& model) {
  size_t bytes = 0;
  for (const auto& p : model.parameters().all()) bytes += p->value.bytes();
  return static_cast<double>(bytes) / (1 << 20);
}

// Rejects options that contradict the adapter being continued.
Status check_continued(const FineTuneOptions& s, const AdapterConfig& config) {
  const auto check_equal = [&](const char* option, const char* key, bool equal, const auto& found) -> Status {
    if (equal || std::find(s.given_options.begin(), s.given_options.end(), option) == s.given_options.end())
      return Done{};
    return error_at(key,
                    "the adapter in {} was made with {}; remove the option, or train a new adapter (without "
                    "lora_model_dir)",
                    s.lora_model_dir, found);
  };
  MAKAR_RETURN_IF_ERROR(check_equal("--lora-r", "lora_r", s.rank == config.rank, config.rank));
  MAKAR_RETURN_IF_ERROR(check_equal("--lora-alpha", "lora_alpha", s.alpha == config.alpha, config.alpha));
  MAKAR_RETURN_IF_ERROR(check_equal("--use-dora", "use_dora", s.dora == config.dora, config.dora));
  return check_equal("--use-rslora", "use_rslora", s.rslora == config.rslora, config.rslora);
}

}  // namespace

void declare_base(Options& o, FineTuneOptions& s) {
  o.group("Model");
  o.add("-m --base-model --model", &s.base_model, "the model to fine-tune: a folder, or a GGUF file", "DIR")
      .required = true;
  o.add("--chat-template", &s.chat_template, "chat template file to use instead of the model's own", "FILE");
}

void declare_lora(Options& o, FineTuneOptions& s) {
  o.add("--lora-r", &s.rank, "rank of the adapter", "N");
  o.add("--lora-alpha", &s.alpha, "the adapter's scale is alpha / r", "X");
  o.add("--lora-dropout", &s.dropout, "dropout on the adapter's input", "X");
  o.add("--lora-target-modules", &s.targets,
        "names of the adapted modules (or their last parts), or all-linear, the default; repeat for more",
        "NAME");
}

void declare_adapter(Options& o, FineTuneOptions& s) {
  o.group("Adapter");
  o.add("--adapter", &s.adapter, "train an adapter on the frozen model: lora, or qlora on a quantized one",
        "KIND");
  o.add("--quantize-base", &s.quantize_base,
        "quantize the blocks of the frozen model to q8_0, q4_0, q4_k, ... on load (qlora on a folder: q4_k)",
        "TYPE");
  declare_lora(o, s);
  o.add("--lora-modules-to-save", &s.modules_to_save, "modules trained in full besides the adapter", "NAME");
  o.add("--lora-model-dir", &s.lora_model_dir, "continue training this adapter", "DIR");
  o.add("--use-rslora --peft-use-rslora", &s.rslora,
        "scale the adapter by alpha / sqrt(r) (rank-stabilized LoRA)");
  o.add("--use-dora --peft-use-dora", &s.dora, "weight-decomposed adapter (DoRA)");
}

Status check_fine_tune(FineTuneOptions& s, const Options& options, double adapter_learning_rate) {
  if (!s.adapter.empty() && s.adapter != "lora" && s.adapter != "qlora")
    return error_at(
        "adapter", "expected lora or qlora, got '{}'{}", s.adapter,
        is_folder(s.adapter) ? "; to continue training that adapter, use --lora-model-dir " + s.adapter : "");
  MAKAR_RETURN_IF_ERROR(check_adapter_options(s, options));
  if (s.rank < 1 || s.rank > 65536) return error_at("lora_r", "expected 1 to 65536, got {}", s.rank);
  if (!(s.dropout >= 0 && s.dropout < 1))
    return error_at("lora_dropout", "expected at least 0 and below 1, got {}", s.dropout);
  if (!(s.alpha > 0)) return error_at("lora_alpha", "expected a number above 0, got {}", s.alpha);
  if (s.sequence_len < 2) return error_at("sequence_len", "expected 2 or more, got {}", s.sequence_len);
  for (const auto& option : options.all())
    if (option.seen) s.given_options.insert(s.given_options.end(), option.names.begin(), option.names.end());
  if (s.has_adapter() && !options.given("--learning-rate"))
    s.common.loop.learning_rate = adapter_learning_rate;
  return Done{};
}

Result<LanguageModel> load_base(FineTuneOptions& s, Device& device, ThreadPool& pool) {
  LanguageModelOptions options;
  options.weights = s.has_adapter() ? WeightUse::kMapped : WeightUse::kTrained;
  MAKAR_TRY(LanguageModel language, LanguageModel::open(s.base_model, device, options));
  Model& model = *language.loaded().model;
  const auto& all = model.parameters().all();
  const bool quantized =
      std::any_of(all.begin(), all.end(), [](const auto& p) { return is_block(p->value.dtype()); });
  if (s.adapter == "qlora" && s.quantize_base.empty() && !quantized) s.quantize_base = "q4_k";
  if (s.quantize_base.empty()) return language;
  const double before = mebibytes(model);
  MAKAR_RETURN_IF_ERROR(quantize_in_memory(model, s.quantize_base, pool));
  say(s.common, fmt::format("base model: {:.1f} MiB as {}, {:.1f} MiB in its files", mebibytes(model),
                            s.quantize_base, before));
  return language;
}

Result<std::optional<AdapterConfig>> open_adapter(const FineTuneOptions& s, const LoadedModel& loaded,
                                                  Device& device) {
  if (!s.lora_model_dir.empty()) {
    MAKAR_TRY(AdapterConfig config, load_adapter(loaded, s.lora_model_dir, device));
    MAKAR_RETURN_IF_ERROR(check_continued(s, config));
    return std::optional<AdapterConfig>(std::move(config));
  }
  if (s.adapter.empty()) return std::optional<AdapterConfig>();
  AdapterConfig config;
  config.rank = s.rank, config.alpha = s.alpha, config.dropout = s.dropout;
  config.rslora = s.rslora, config.dora = s.dora;
  config.targets = s.targets.empty() ? std::vector<std::string>{"all-linear"} : s.targets;
  config.modules_to_save = s.modules_to_save;
  config.json = {{"base_model_name_or_path", s.base_model}};
  MAKAR_RETURN_IF_ERROR(add_adapter(loaded, config, device, static_cast<uint64_t>(s.common.loop.seed)));
  return std::optional<AdapterConfig>(std::move(config));
}

Result<ChatTemplate> find_template(FineTuneOptions& s, const LanguageModel& language) {
  if (!s.chat_template.empty()) {
    MAKAR_TRY(s.saved_template, read_file(s.chat_template, size_t{1} << 20));
    return ChatTemplate::parse(s.saved_template, s.chat_template);
  }
  if (language.chat_template()) return *language.chat_template();
  std::string end;
  if (const auto& eos = language.spec().eos; !eos.empty())
    end = language.tokenizer().token(static_cast<uint32_t>(eos[0])).value_or("");
  say(s.common,
      "the model has no chat template: '### Instruction' and '### Response' are used, and saved with it");
  s.saved_template = ConversationEncoder::plain_template(end);
  return ChatTemplate::parse(s.saved_template, "built-in template");
}

std::unique_ptr<Task> conversation_task(const TrainCommon& common, Model& model, ConversationStores data,
                                        float smoothing, int64_t pack_length, Json& identity) {
  const int64_t conversations = data.train.documents();
  auto task = std::make_unique<ConversationTask>(
      model, std::move(data.train), std::move(data.validation), common.loop.micro_batch_size,
      static_cast<uint64_t>(common.loop.seed), smoothing, pack_length);
  if (pack_length > 0) {
    identity["sample_packing"] = pack_length;
    say(common, fmt::format("sample packing: {} conversations in {} packs of up to {} tokens", conversations,
                            task->packs(), pack_length));
  }
  return task;
}

Json tokenizer_config(const std::string& base_model, const Tokenizer& tokenizer) {
  Json out = TokenRoles::of(tokenizer, base_model).to_json();
  if (const auto source = ModelSource::open(base_model); source.ok() && source->gguf)
    if (const auto text = source->gguf->fields().text("tokenizer.chat_template"))
      out["chat_template"] = *text;
  return out;
}

}  // namespace makar
