// makar sft: fine-tuning on conversations and instructions, whole or through an adapter.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/sha256.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "llm/language_model.h"
#include "models/source.h"
#include "quant/in_memory.h"
#include "train/contrastive.h"
#include "train/conversation.h"
#include "train/given_batch.h"
#include "train/pairs.h"

namespace makar {
namespace {

struct Sft {
  TrainCommon common;
  std::string base_model, adapter, quantize_base, lora_model_dir, chat_template;
  std::vector<std::string> targets, modules_to_save;
  int64_t sequence_len = 1024, rank = 8;
  double alpha = 16, dropout = 0;
  bool rslora = false, dora = false, train_on_inputs = false, sample_packing = true;
};

void declare(Options& o, Sft& s) {
  declare_common(o, s.common);
  o.add("-m --base-model --model", &s.base_model, "the model to fine-tune: a folder, or a GGUF file", "DIR")
      .required = true;
  o.add("--sequence-len", &s.sequence_len, "longer conversations are cut at their end", "N");
  o.add("--sample-packing", &s.sample_packing,
        "always so: sequences lie end to end without padding, each attending to itself");
  o.add("--train-on-inputs", &s.train_on_inputs, "learn all tokens, not the assistant's alone");
  o.add("--chat-template", &s.chat_template, "a template file instead of the model's own", "FILE");
  o.add("--adapter", &s.adapter,
        "lora: train an adapter beside the frozen model; qlora: the model in fewer bits", "NAME");
  o.add("--quantize-base", &s.quantize_base,
        "the frozen model's blocks become q8_0, q4_0, q4_k, ... when it is loaded (qlora on a folder: q4_k)",
        "TYPE");
  o.add("--lora-r", &s.rank, "rank", "N");
  o.add("--lora-alpha", &s.alpha, "its scale is alpha / r", "X");
  o.add("--lora-dropout", &s.dropout, "before the adapter", "X");
  o.add("--lora-target-modules", &s.targets, "ends of module names, or all-linear; repeat for more", "NAME");
  o.add("--lora-modules-to-save", &s.modules_to_save, "modules trained whole beside the adapter", "NAME");
  o.add("--lora-model-dir", &s.lora_model_dir, "go on with this adapter", "DIR");
  o.add("--use-rslora --peft-use-rslora", &s.rslora, "scale by alpha / sqrt(r)");
  o.add("--use-dora --peft-use-dora", &s.dora, "weight-decomposed: magnitude and direction");
}

Status check_options(const Sft& s) {
  if (!s.adapter.empty() && s.adapter != "lora" && s.adapter != "qlora")
    return error_at("adapter", "expected lora or qlora, got '{}'", s.adapter);
  if (!s.quantize_base.empty() && s.adapter.empty() && s.lora_model_dir.empty())
    return error_at("quantize_base", "a model in fewer bits is trained through an adapter: --adapter qlora");
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

// The model to train; one that stays frozen is left as its files hold it, or becomes smaller.
Result<LoadedModel> load_base(Sft& s, ThreadPool& pool) {
  const bool frozen = !s.adapter.empty() || !s.lora_model_dir.empty();
  MAKAR_TRY(LoadedModel loaded, load_model(s.base_model, {!frozen}));
  const auto& all = loaded.model->parameters().all();
  const bool small =
      std::any_of(all.begin(), all.end(), [](const auto& p) { return is_block(p->value.dtype()); });
  if (s.adapter == "qlora" && s.quantize_base.empty() && !small) s.quantize_base = "q4_k";
  if (s.quantize_base.empty()) return loaded;
  const double before = mebibytes(*loaded.model);
  MAKAR_CHECK_OK(quantize_in_memory(*loaded.model, s.quantize_base, pool));
  say(s.common,
      fmt::format("the frozen model: {:.1f} MiB, {:.1f} MiB in its files", mebibytes(*loaded.model), before));
  return loaded;
}

// A new adapter, or one that goes on; nullopt: the whole model is trained.
Result<std::optional<AdapterConfig>> put_adapter(const Sft& s, const LoadedModel& loaded, ThreadPool& pool) {
  if (!s.lora_model_dir.empty()) {
    MAKAR_TRY(AdapterConfig config, load_adapter(loaded, s.lora_model_dir, pool));
    return std::optional<AdapterConfig>(std::move(config));
  }
  if (s.adapter.empty()) return std::optional<AdapterConfig>();
  AdapterConfig config;
  config.rank = s.rank, config.alpha = s.alpha, config.dropout = s.dropout;
  config.rslora = s.rslora, config.dora = s.dora;
  config.targets = s.targets.empty() ? std::vector<std::string>{"all-linear"} : s.targets;
  config.modules_to_save = s.modules_to_save;
  config.json = {{"base_model_name_or_path", s.base_model}};
  MAKAR_CHECK_OK(add_adapter(loaded, config, pool, static_cast<uint64_t>(s.common.loop.seed)));
  return std::optional<AdapterConfig>(std::move(config));
}

Result<ChatTemplate> find_template(const Sft& s, const Tokenizer& tokenizer, const ModelSpec& spec) {
  if (!s.chat_template.empty()) {
    MAKAR_TRY(const std::string text, read_file(s.chat_template, size_t{1} << 20));
    return ChatTemplate::parse(text, s.chat_template);
  }
  MAKAR_TRY(const ModelSource source, ModelSource::open(s.base_model));
  auto own = chat_template_of(source, tokenizer);
  if (own.ok() || own.error().kind != Error::Kind::kNotFound) return own;
  std::string end;
  if (!spec.eos.empty()) end = tokenizer.token(static_cast<uint32_t>(spec.eos[0])).value_or("");
  say(s.common, "the model has no chat template: '### Instruction' and '### Response' are used");
  return ChatTemplate::parse(ConversationEncoder::plain_template(end), "built-in template");
}

struct ConversationStores {
  TokenStore train, validation;
};

// Every conversation of the datasets, through shards under the run's folder.
Result<ConversationStores> read_all_conversations(const Sft& s, const ConversationEncoder& encoder,
                                                  int64_t vocab, Json& identity) {
  const std::string folder = s.common.loop.output_dir + "/data/conversations";
  MAKAR_CHECK_OK(make_folder(folder));
  ConversationWriter writer(folder, vocab);
  const auto add = [&](const std::string& text, bool held_out) -> Status {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    const double share = held_out ? 1 : s.common.val_datasets.empty() ? s.common.val_set_size : 0;
    const uint64_t train = writer.train(), validation = writer.validation();
    MAKAR_TRY(const auto read, read_conversations(spec.path, spec.type, encoder, share, writer));
    say(s.common, fmt::format("{}: {} conversations to learn, {} for validation (schema: {})", spec.path,
                              writer.train() - train, writer.validation() - validation, read.schema));
    if (read.bad.count > 0) say(s.common, fmt::format("{} records could not be used:", read.bad.count));
    for (const std::string& line : read.bad.told) say(s.common, "  " + line);
    return Done{};
  };
  for (const std::string& text : s.common.datasets) MAKAR_CHECK_OK(add(text, false));
  for (const std::string& text : s.common.val_datasets) MAKAR_CHECK_OK(add(text, true));
  if (writer.train() == 0) return error_at("datasets", "there is no conversation to learn from");
  MAKAR_CHECK_OK(writer.finish());
  ConversationStores out;
  MAKAR_TRY(out.train, TokenStore::open(folder, "train"));
  MAKAR_TRY(out.validation, TokenStore::open(folder, "validation"));
  Sha256 sum;
  for (const TokenStore* store : {&out.train, &out.validation})
    for (int64_t d = 0; d < store->documents(); ++d) {
      const auto ids = store->read(store->document(d));
      const auto learnt = store->mask(store->document(d));
      sum.add(std::as_bytes(std::span(ids))), sum.add(std::as_bytes(std::span(learnt)));
    }
  identity["data"] = sum.hex();
  return out;
}

// Every example of the datasets; for validation those of val_datasets, or a share.
template <class Data, class Read>
Result<Data> read_split(const Sft& s, const char* what, Json& identity, const Read& read) {
  Data data(s.common.loop.output_dir);
  const auto add = [&](const std::string& text, bool held_out) -> Status {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    const double share = held_out ? 1 : s.common.val_datasets.empty() ? s.common.val_set_size : 0;
    const size_t train = data.train.size(), validation = data.validation.size();
    MAKAR_CHECK_OK(read(spec.path, share, data));
    say(s.common,
        fmt::format("{}: {} {} to learn, {} for validation; {} records could not be used", spec.path,
                    data.train.size() - train, what, data.validation.size() - validation, data.bad.count));
    for (const std::string& line : data.bad.told) say(s.common, "  " + line);
    MAKAR_TRY(const std::string sum,
              is_folder(spec.path) ? Result<std::string>(spec.path) : sha256_of_file(spec.path));
    identity["data"].push_back(sum);
    return Done{};
  };
  for (const std::string& text : s.common.datasets) MAKAR_CHECK_OK(add(text, false));
  for (const std::string& text : s.common.val_datasets) MAKAR_CHECK_OK(add(text, true));
  if (data.train.empty()) return error_at("datasets", "there are no {} to learn from", what);
  return data;
}

Result<std::unique_ptr<Task>> make_task(Sft& s, Model& model, const Tokenizer& tokenizer, Json& identity) {
  const ModelSpec& spec = model.spec();
  const auto seed = static_cast<uint64_t>(s.common.loop.seed);
  const auto smoothing = static_cast<float>(s.common.loop.label_smoothing);
  const int64_t batch = s.common.loop.micro_batch_size;
  if (spec.head.kind == HeadKind::kNone && spec.encoder && !spec.decoder) {
    MAKAR_TRY(auto data,
              read_split<TripletData>(s, "anchors with positives", identity,
                                      [&](const std::string& path, double share, TripletData& out) {
                                        return read_triplets(path, tokenizer, s.sequence_len, share, out);
                                      }));
    return std::unique_ptr<Task>(new ContrastiveTask(model, std::move(data), batch, seed));
  }
  if (spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, s.base_model,
                    "a {} neither writes nor embeds; makar classify trains it", spec.architecture);
  if (spec.encoder) {
    if (spec.eos.empty()) return error_at(s.base_model, "config.json names no eos_token_id");
    MAKAR_TRY(auto data, read_split<PairData>(s, "pairs of source and target", identity,
                                              [&](const std::string& path, double share, PairData& out) {
                                                return read_pairs(path, tokenizer, spec.eos[0],
                                                                  s.sequence_len, share, out);
                                              }));
    return std::unique_ptr<Task>(new PairTask(model, std::move(data), batch, seed, smoothing));
  }
  MAKAR_TRY(ChatTemplate chat, find_template(s, tokenizer, spec));
  const ConversationEncoder encoder(tokenizer, std::move(chat), {s.sequence_len, s.train_on_inputs});
  MAKAR_TRY(auto data, read_all_conversations(s, encoder, spec.vocab, identity));
  return std::unique_ptr<Task>(
      new ConversationTask(model, std::move(data.train), std::move(data.validation), batch, seed, smoothing));
}

int train(Sft& s, const std::string& command) {
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto loaded = load_base(s, pool);
  if (!loaded.ok()) return report(loaded.error());
  const auto adapter = put_adapter(s, *loaded, pool);
  if (!adapter.ok()) return report(adapter.error());
  Json identity = {{"base_model", s.base_model},
                   {"adapter", adapter->has_value() ? (*adapter)->scale() : 0.0f}};
  if (!s.quantize_base.empty()) identity["quantize_base"] = s.quantize_base;
  const AdapterConfig* saved = adapter->has_value() ? &**adapter : nullptr;
  if (s.common.datasets[0].ends_with(".safetensors")) {
    auto task = GivenBatchTask::open(*loaded->model, s.common.datasets[0],
                                     static_cast<float>(s.common.loop.label_smoothing));
    if (!task.ok()) return report(task.error());
    return run_job({s.common, *loaded, *task, pool, saved, nullptr, "", "fine-tuned", command, identity});
  }
  const ModelSpec& spec = loaded->model->spec();
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  const auto tokenizer = Tokenizer::load(s.base_model);
  if (!tokenizer.ok()) return report(tokenizer.error());
  if (static_cast<int64_t>(tokenizer->vocab_size()) > spec.vocab)
    return report(error_at(s.base_model, "the tokenizer has {} tokens, the model {}", tokenizer->vocab_size(),
                           spec.vocab));
  const auto task = make_task(s, *loaded->model, *tokenizer, identity);
  if (!task.ok()) return report(task.error());
  return run_job(
      {s.common, *loaded, **task, pool, saved, &*tokenizer, s.base_model, "fine-tuned", command, identity});
}

}  // namespace

int run_sft(const std::vector<std::string>& arguments) {
  Sft s;
  s.common.loop.learning_rate = 2e-5;
  Options options("sft",
                  "Fine-tunes a model on conversations (an encoder-decoder on source and target, an "
                  "embedding model on anchor and positive); RECIPE.yaml and key=value words set options too.",
                  "makar sft --base-model DIR --datasets chats.jsonl --adapter lora -o run");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  if (const Status c = check_options(s); !c.ok()) return report(c.error()), 2;
  return train(s, command_line("sft", arguments));
}

}  // namespace makar
