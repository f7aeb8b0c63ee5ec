// makar sft: fine-tunes on conversations and instructions, all weights or an adapter.
#include <fmt/format.h>

#include <algorithm>

#include "cli/fine_tune.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "llm/image_inputs.h"
#include "train/contrastive.h"
#include "train/conversation.h"
#include "train/fixed_batch.h"
#include "train/image_text.h"
#include "train/pairs.h"

namespace makar {
namespace {

// The usual learning rate for adapters is ten times that of full fine-tuning: the adapter starts at zero.
constexpr double kSftAdapterLearningRate = 2e-4;

struct Sft : FineTuneOptions {
  bool train_on_inputs = false, sample_packing = false;
};

void declare(Options& o, Sft& s) {
  declare_common(o, s.common);
  declare_base(o, s);
  o.group("Objective");
  o.add("--sequence-len", &s.sequence_len,
        "maximum tokens per conversation; longer ones are truncated at the end", "N");
  o.add("--sample-packing", &s.sample_packing,
        "pack conversations into examples of up to sequence_len tokens; attention does not cross "
        "conversations");
  o.add("--train-on-inputs", &s.train_on_inputs, "train on all tokens, not only on the assistant's");
  declare_qat(o, s.common);
  declare_adapter(o, s);
}

// Conversations with and without images, or captions.
Result<std::unique_ptr<Task>> image_text_task(Sft& s, LanguageModel& language, Json& identity) {
  Model& model = *language.loaded().model;
  const ModelSpec& spec = model.spec();
  if (spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, s.base_model,
                    "a {} generates no text about images; train it on tensors, a .safetensors file with "
                    "in.pixel_values",
                    spec.architecture);
  if (s.sample_packing)
    return error_of(Error::Kind::kUnsupported, "sample_packing", "does not pack conversations with images");
  ImageTextEncoding e;
  e.max_length = s.sequence_len;
  e.pixels = [&language](const std::string& file) -> Result<Tensor> {
    MAKAR_TRY(const Image image, read_image(file));
    return model_pixels(language, image, file);
  };
  if (spec.is_encoder_decoder()) {
    if (spec.eos.empty()) return error_at(s.base_model, "config.json has no eos_token_id");
    e.caption = [&s, &language](const std::string& text) -> Result<MaskedTokens> {
      std::vector<uint32_t> ids;
      MAKAR_RETURN_IF_ERROR(language.tokenizer().append_ids(text, {}, ids));
      ids.resize(std::min(ids.size(), static_cast<size_t>(s.sequence_len - 1)));
      MaskedTokens out{{ids.begin(), ids.end()}, {}};
      out.ids.push_back(language.spec().eos[0]);
      out.loss_mask.assign(out.ids.size(), 1);
      return out;
    };
  } else {
    MAKAR_TRY(ChatTemplate chat, find_template(s, language));
    const bool places_images = chat.places_images();
    const auto encoder = std::make_shared<ConversationEncoder>(
        language.tokenizer(), std::move(chat), ConversationOptions{s.sequence_len, s.train_on_inputs});
    e.conversation = [encoder, places_images](const Json& messages) -> Result<MaskedTokens> {
      if (places_images) return encoder->encode(messages);
      MAKAR_TRY(const Json texts, messages_without_images(messages));
      return encoder->encode(texts);
    };
  }
  MAKAR_TRY(auto data, open_image_text(dataset_options(s.common), spec, e, identity));
  return std::unique_ptr<Task>(new ImageTextTask(
      model, std::move(data), std::move(e), s.common.loop.micro_batch_size,
      static_cast<uint64_t>(s.common.loop.seed), static_cast<float>(s.common.loop.label_smoothing)));
}

Result<std::unique_ptr<Task>> make_task(Sft& s, LanguageModel& language, Json& identity) {
  Model& model = *language.loaded().model;
  const ModelSpec& spec = model.spec();
  const Tokenizer& tokenizer = language.tokenizer();
  const DatasetOptions datasets = dataset_options(s.common);
  const auto seed = static_cast<uint64_t>(s.common.loop.seed);
  const auto smoothing = static_cast<float>(s.common.loop.label_smoothing);
  const int64_t batch = s.common.loop.micro_batch_size;
  if (spec.reads_images()) return image_text_task(s, language, identity);
  if (s.sample_packing && !spec.continues_text())
    return error_of(Error::Kind::kUnsupported, "sample_packing",
                    "packs conversations, which a {} is not trained on", spec.architecture);
  if (spec.head.kind == HeadKind::kNone && spec.encoder && !spec.decoder) {
    MAKAR_TRY(auto data, open_triplets(datasets, tokenizer, s.sequence_len, identity));
    return std::unique_ptr<Task>(new ContrastiveTask(model, std::move(data), batch, seed));
  }
  if (spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, s.base_model,
                    "a {} neither generates text nor embeds it; use makar classify train", spec.architecture);
  if (spec.is_encoder_decoder()) {
    if (spec.eos.empty()) return error_at(s.base_model, "config.json has no eos_token_id");
    MAKAR_TRY(auto data, open_pairs(datasets, tokenizer, spec.eos[0], s.sequence_len, identity));
    return std::unique_ptr<Task>(new PairTask(model, std::move(data), batch, seed, smoothing));
  }
  MAKAR_TRY(ChatTemplate chat, find_template(s, language));
  const ConversationEncoder encoder(tokenizer, std::move(chat), {s.sequence_len, s.train_on_inputs});
  MAKAR_TRY(auto data, open_conversations(datasets, encoder, spec.vocab, identity));
  return conversation_task(s.common, model, std::move(data), smoothing, s.sample_packing ? s.sequence_len : 0,
                           identity);
}

int train(Sft& s, const std::string& command) {
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto compute = open_device_option(s.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  auto language = load_base(s, device, pool);
  if (!language.ok()) return report(language.error());
  const LoadedModel& loaded = language->loaded();
  const auto adapter = open_adapter(s, loaded, device);
  if (!adapter.ok()) return report(adapter.error());
  print_trained_parameters(s.common, *loaded.model);
  Json identity = {{"base_model", s.base_model},
                   {"adapter", adapter->has_value() ? (*adapter)->scale() : 0.0f}};
  if (!s.quantize_base.empty()) identity["quantize_base"] = s.quantize_base;
  const auto round = open_qat(s.common, *loaded.model, adapter->has_value(), pool, identity);
  if (!round.ok()) return report(round.error()), 2;
  const AdapterConfig* adapter_config = adapter->has_value() ? &**adapter : nullptr;
  if (s.common.datasets[0].ends_with(".safetensors")) {
    auto task = FixedBatchTask::open(*loaded.model, s.common.datasets[0],
                                     static_cast<float>(s.common.loop.label_smoothing));
    if (!task.ok()) return report(task.error());
    return run_job(
        {s.common, loaded, *task, device, adapter_config, nullptr, "", "fine-tuned", command, identity});
  }
  const ModelSpec& spec = loaded.model->spec();
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  if (!language->has_tokenizer())
    return report(
        error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; fine-tuning on text needs it"));
  const auto task = make_task(s, *language, identity);
  if (!task.ok()) return report(task.error());
  const Tokenizer& tokenizer = language->tokenizer();
  return run_job({s.common,
                  loaded,
                  **task,
                  device,
                  adapter_config,
                  &tokenizer,
                  s.base_model,
                  "fine-tuned",
                  command,
                  identity,
                  s.base_model,
                  tokenizer_config(s.base_model, tokenizer),
                  s.saved_template,
                  {},
                  *round});
}

}  // namespace

int run_sft(const std::vector<std::string>& arguments) {
  Sft s;
  s.common.loop.output_dir = "runs/sft", s.common.loop.learning_rate = 2e-5;
  Options options("sft",
                  "Fine-tune a model on conversations (an encoder-decoder on source and target, an embedding "
                  "model on anchor and positive). A RECIPE.yaml and key=value arguments set options too.",
                  "makar sft --base-model DIR --datasets chats.jsonl --adapter lora -o runs/mine");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  if (const Status c = check_fine_tune(s, options, kSftAdapterLearningRate); !c.ok())
    return report(c.error()), 2;
  return train(s, command_line("sft", arguments));
}

}  // namespace makar
