// makar sft: fine-tunes on conversations and instructions, all weights or an adapter.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "llm/language_model.h"
#include "models/source.h"
#include "quant/in_memory.h"
#include "train/contrastive.h"
#include "train/conversation.h"
#include "train/given_batch.h"
#include "train/pairs.h"
#include "train/token_roles.h"

namespace makar {
namespace {

// The usual learning rate for adapters: ten times that of full fine-tuning, because few parameters start at
// zero.
constexpr double kAdapterRate = 2e-4;

struct Sft {
  TrainCommon common;
  std::string base_model, adapter, quantize_base, lora_model_dir, chat_template;
  std::vector<std::string> targets, modules_to_save;
  int64_t sequence_len = 1024, rank = 8;
  double alpha = 16, dropout = 0;
  bool rslora = false, dora = false, train_on_inputs = false, sample_packing = false;
  std::vector<std::string> given;  // options that were set
  std::string used_template;       // a chat template that is not the base's own
};

void declare(Options& o, Sft& s) {
  declare_common(o, s.common);
  o.group("Model");
  o.add("-m --base-model --model", &s.base_model, "the model to fine-tune: a folder, or a GGUF file", "DIR")
      .required = true;
  o.group("Objective");
  o.add("--sequence-len", &s.sequence_len, "tokens of a conversation; longer ones are cut at their end", "N");
  o.add("--sample-packing", &s.sample_packing,
        "an example is a pack of conversations with up to sequence_len tokens; each attends to itself only");
  o.add("--train-on-inputs", &s.train_on_inputs, "train on all tokens, not only on the assistant's");
  o.add("--chat-template", &s.chat_template, "chat template file to use instead of the model's own", "FILE");
  o.group("Adapter");
  o.add("--adapter", &s.adapter, "train an adapter on the frozen model: lora, or qlora on a quantized one",
        "KIND");
  o.add("--quantize-base", &s.quantize_base,
        "quantize the blocks of the frozen model to q8_0, q4_0, q4_k, ... on load (qlora on a folder: q4_k)",
        "TYPE");
  o.add("--lora-r", &s.rank, "rank of the adapter", "N");
  o.add("--lora-alpha", &s.alpha, "the adapter's scale is alpha / r", "X");
  o.add("--lora-dropout", &s.dropout, "dropout on the adapter's input", "X");
  o.add("--lora-target-modules", &s.targets,
        "names of the adapted modules (or their last parts), or all-linear, the default; repeat for more",
        "NAME");
  o.add("--lora-modules-to-save", &s.modules_to_save, "modules trained in full besides the adapter", "NAME");
  o.add("--lora-model-dir", &s.lora_model_dir, "continue training this adapter", "DIR");
  o.add("--use-rslora --peft-use-rslora", &s.rslora,
        "scale the adapter by alpha / sqrt(r) (rank-stabilized LoRA)");
  o.add("--use-dora --peft-use-dora", &s.dora, "weight-decomposed adapter (DoRA)");
}

// Rejects adapter options when no adapter is trained: the user expects one.
Status check_adapter_options(const Sft& s, const Options& options) {
  if (!s.adapter.empty() || !s.lora_model_dir.empty()) return Done{};
  std::vector<std::string> given;
  for (const char* name : {"--quantize-base", "--lora-r", "--lora-alpha", "--lora-dropout",
                           "--lora-target-modules", "--lora-modules-to-save", "--use-rslora", "--use-dora"})
    if (options.given(name)) {
      std::string key(name + 2);
      std::replace(key.begin(), key.end(), '-', '_');
      given.push_back(std::move(key));
    }
  if (given.empty()) return Done{};
  return error_at(
      given[0], "{} without an adapter: add --adapter {}, or remove {} to train all weights",
      given.size() == 1 ? "has no effect" : fmt::format("{} have no effect", fmt::join(given, ", ")),
      s.quantize_base.empty() ? "lora" : "qlora", given.size() == 1 ? "it" : "them");
}

Status check_options(const Sft& s, const Options& options) {
  if (!s.adapter.empty() && s.adapter != "lora" && s.adapter != "qlora")
    return error_at(
        "adapter", "expected lora or qlora, got '{}'{}", s.adapter,
        is_folder(s.adapter) ? "; to continue training that adapter, use --lora-model-dir " + s.adapter : "");
  MAKAR_CHECK_OK(check_adapter_options(s, options));
  if (s.rank < 1 || s.rank > 65536) return error_at("lora_r", "expected 1 to 65536, got {}", s.rank);
  if (!(s.dropout >= 0 && s.dropout < 1))
    return error_at("lora_dropout", "expected 0 to 1, got {}", s.dropout);
  if (!(s.alpha > 0)) return error_at("lora_alpha", "expected a number above 0, got {}", s.alpha);
  if (s.sequence_len < 2) return error_at("sequence_len", "expected 2 or more, got {}", s.sequence_len);
  return Done{};
}

double mebibytes(const Model& model) {
  size_t bytes = 0;
  for (const auto& p : model.parameters().all()) bytes += p->value.bytes();
  return static_cast<double>(bytes) / (1 << 20);
}

// Loads the model to train. A frozen base is mapped in its files' types, or quantized.
Result<LanguageModel> load_base(Sft& s, Device& device, ThreadPool& pool) {
  const bool frozen = !s.adapter.empty() || !s.lora_model_dir.empty();
  LanguageModelOptions options;
  options.weights = frozen ? WeightUse::kMapped : WeightUse::kTrained;
  MAKAR_TRY(LanguageModel language, LanguageModel::open(s.base_model, device, options));
  Model& model = *language.loaded().model;
  const auto& all = model.parameters().all();
  const bool small =
      std::any_of(all.begin(), all.end(), [](const auto& p) { return is_block(p->value.dtype()); });
  if (s.adapter == "qlora" && s.quantize_base.empty() && !small) s.quantize_base = "q4_k";
  if (s.quantize_base.empty()) return language;
  const double before = mebibytes(model);
  MAKAR_CHECK_OK(quantize_in_memory(model, s.quantize_base, pool));
  say(s.common, fmt::format("base model: {:.1f} MiB as {}, {:.1f} MiB in its files", mebibytes(model),
                            s.quantize_base, before));
  return language;
}

// Rejects options that contradict the adapter being continued.
Status check_continued(const Sft& s, const AdapterConfig& config) {
  const auto differs = [&](const char* option, const char* key, bool equal, const auto& found) -> Status {
    if (equal || std::find(s.given.begin(), s.given.end(), option) == s.given.end()) return Done{};
    return error_at(key,
                    "the adapter in {} was made with {}; remove the option, or train a new adapter (without "
                    "lora_model_dir)",
                    s.lora_model_dir, found);
  };
  MAKAR_CHECK_OK(differs("--lora-r", "lora_r", s.rank == config.rank, config.rank));
  MAKAR_CHECK_OK(differs("--lora-alpha", "lora_alpha", s.alpha == config.alpha, config.alpha));
  MAKAR_CHECK_OK(differs("--use-dora", "use_dora", s.dora == config.dora, config.dora));
  return differs("--use-rslora", "use_rslora", s.rslora == config.rslora, config.rslora);
}

// Creates a new adapter or loads the one to continue; nullopt: full fine-tuning.
Result<std::optional<AdapterConfig>> put_adapter(const Sft& s, const LoadedModel& loaded, Device& device) {
  if (!s.lora_model_dir.empty()) {
    MAKAR_TRY(AdapterConfig config, load_adapter(loaded, s.lora_model_dir, device));
    MAKAR_CHECK_OK(check_continued(s, config));
    return std::optional<AdapterConfig>(std::move(config));
  }
  if (s.adapter.empty()) return std::optional<AdapterConfig>();
  AdapterConfig config;
  config.rank = s.rank, config.alpha = s.alpha, config.dropout = s.dropout;
  config.rslora = s.rslora, config.dora = s.dora;
  config.targets = s.targets.empty() ? std::vector<std::string>{"all-linear"} : s.targets;
  config.modules_to_save = s.modules_to_save;
  config.json = {{"base_model_name_or_path", s.base_model}};
  MAKAR_CHECK_OK(add_adapter(loaded, config, device, static_cast<uint64_t>(s.common.loop.seed)));
  return std::optional<AdapterConfig>(std::move(config));
}

// The chat template to train with. If it is not the base's own, it is kept in used_template and saved with
// the model.
Result<ChatTemplate> find_template(Sft& s, const LanguageModel& language) {
  if (!s.chat_template.empty()) {
    MAKAR_TRY(s.used_template, read_file(s.chat_template, size_t{1} << 20));
    return ChatTemplate::parse(s.used_template, s.chat_template);
  }
  if (language.chat_template()) return *language.chat_template();
  std::string end;
  if (const auto& eos = language.spec().eos; !eos.empty())
    end = language.tokenizer().token(static_cast<uint32_t>(eos[0])).value_or("");
  say(s.common,
      "the model has no chat template: '### Instruction' and '### Response' are used, and saved with it");
  s.used_template = ConversationEncoder::plain_template(end);
  return ChatTemplate::parse(s.used_template, "built-in template");
}

Result<std::unique_ptr<Task>> make_task(Sft& s, LanguageModel& language, Json& identity) {
  Model& model = *language.loaded().model;
  const ModelSpec& spec = model.spec();
  const Tokenizer& tokenizer = language.tokenizer();
  const DatasetOptions datasets = dataset_options(s.common);
  const auto seed = static_cast<uint64_t>(s.common.loop.seed);
  const auto smoothing = static_cast<float>(s.common.loop.label_smoothing);
  const int64_t batch = s.common.loop.micro_batch_size;
  if (s.sample_packing && (spec.head.kind != HeadKind::kCausalLm || spec.encoder))
    return error_of(Error::Kind::kUnsupported, "sample_packing",
                    "packs conversations; a {} does not learn them", spec.architecture);
  if (spec.head.kind == HeadKind::kNone && spec.encoder && !spec.decoder) {
    MAKAR_TRY(auto data, open_triplets(datasets, tokenizer, s.sequence_len, identity));
    return std::unique_ptr<Task>(new ContrastiveTask(model, std::move(data), batch, seed));
  }
  if (spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, s.base_model,
                    "a {} neither writes nor embeds; makar classify trains it", spec.architecture);
  if (spec.encoder) {
    if (spec.eos.empty()) return error_at(s.base_model, "config.json names no eos_token_id");
    MAKAR_TRY(auto data, open_pairs(datasets, tokenizer, spec.eos[0], s.sequence_len, identity));
    return std::unique_ptr<Task>(new PairTask(model, std::move(data), batch, seed, smoothing));
  }
  MAKAR_TRY(ChatTemplate chat, find_template(s, language));
  const ConversationEncoder encoder(tokenizer, std::move(chat), {s.sequence_len, s.train_on_inputs});
  MAKAR_TRY(auto data, open_conversations(datasets, encoder, spec.vocab, identity));
  const int64_t conversations = data.train.documents();
  auto task =
      std::make_unique<ConversationTask>(model, std::move(data.train), std::move(data.validation), batch,
                                         seed, smoothing, s.sample_packing ? s.sequence_len : 0);
  if (s.sample_packing) {
    identity["sample_packing"] = s.sequence_len;
    say(s.common, fmt::format("sample packing: {} conversations in {} packs of up to {} tokens",
                              conversations, task->packs(), s.sequence_len));
  }
  return std::unique_ptr<Task>(std::move(task));
}

// For a GGUF base: its control tokens and chat template.
Json tokenizer_config(const std::string& base_model, const Tokenizer& tokenizer) {
  Json out = TokenRoles::of(tokenizer, base_model).to_json();
  if (const auto source = ModelSource::open(base_model); source.ok() && source->gguf)
    if (const auto text = source->gguf->fields().text("tokenizer.chat_template"))
      out["chat_template"] = *text;
  return out;
}

int train(Sft& s, const std::string& command) {
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto compute = open_compute(s.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  auto language = load_base(s, device, pool);
  if (!language.ok()) return report(language.error());
  const LoadedModel& loaded = language->loaded();
  const auto adapter = put_adapter(s, loaded, device);
  if (!adapter.ok()) return report(adapter.error());
  say_trained_parameters(s.common, *loaded.model);
  Json identity = {{"base_model", s.base_model},
                   {"adapter", adapter->has_value() ? (*adapter)->scale() : 0.0f}};
  if (!s.quantize_base.empty()) identity["quantize_base"] = s.quantize_base;
  const AdapterConfig* saved = adapter->has_value() ? &**adapter : nullptr;
  if (s.common.datasets[0].ends_with(".safetensors")) {
    auto task = GivenBatchTask::open(*loaded.model, s.common.datasets[0],
                                     static_cast<float>(s.common.loop.label_smoothing));
    if (!task.ok()) return report(task.error());
    return run_job({s.common, loaded, *task, device, saved, nullptr, "", "fine-tuned", command, identity});
  }
  const ModelSpec& spec = loaded.model->spec();
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  if (!language->has_tokenizer())
    return report(
        error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; fine-tuning on text needs it"));
  const auto task = make_task(s, *language, identity);
  if (!task.ok()) return report(task.error());
  const Tokenizer& tokenizer = language->tokenizer();
  return run_job({s.common, loaded, **task, device, saved, &tokenizer, s.base_model, "fine-tuned", command,
                  identity, s.base_model, tokenizer_config(s.base_model, tokenizer), s.used_template});
}

}  // namespace

int run_sft(const std::vector<std::string>& arguments) {
  Sft s;
  s.common.loop.output_dir = "runs/sft", s.common.loop.learning_rate = 2e-5;
  Options options("sft",
                  "Fine-tune a model on conversations (an encoder-decoder on source and target, an embedding "
                  "model on anchor and positive). A RECIPE.yaml and key=value words set options too.",
                  "makar sft --base-model DIR --datasets chats.jsonl --adapter lora -o runs/mine");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  if (const Status c = check_options(s, options); !c.ok()) return report(c.error()), 2;
  for (const auto& option : options.all())
    if (option.seen) s.given.insert(s.given.end(), option.names.begin(), option.names.end());
  const bool adapter = !s.adapter.empty() || !s.lora_model_dir.empty();
  if (adapter && !options.given("--learning-rate")) s.common.loop.learning_rate = kAdapterRate;
  return train(s, command_line("sft", arguments));
}

}  // namespace makar
