// makar pretrain: trains a new or an existing model on raw text.
#include <fmt/format.h>

#include "base/file.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "data/find_tokenizer.h"
#include "infer/generate.h"
#include "train/denoise.h"
#include "train/pairs.h"
#include "train/replaced.h"
#include "train/shapes.h"
#include "train/token_roles.h"

namespace makar {
namespace {

struct Pretrain {
  TrainCommon common;
  ShapeOptions shape;
  std::string base_model, config, tokenizer, prompt = "\n", objective = "auto";
  int64_t depth = 0, vocab_size = 8192, sequence_len = 256;
  double generator_size = 0.25;
  bool vocab_size_given = false;
  Json config_json;  // of --config
  std::string model_type() const { return config.empty() ? shape.type : config_json.value("model_type", ""); }
};

void declare(Options& o, Pretrain& p) {
  declare_common(o, p.common);
  o.group("Model");
  o.add("-m --base-model --model", &p.base_model, "model folder to continue from; a new model if not set",
        "MODEL");
  o.add("--model-type", &p.shape.type,
        "type of the new model: gpt2, llama, bert, t5, bart, rnn, lstm, gru or elmo", "NAME");
  o.add("--config", &p.config, "config.json of the new model, or a folder that has one", "FILE");
  o.add("--depth", &p.depth,
        "size of the new model as one number: sets layers, width and heads, and 20 tokens per parameter",
        "N");
  o.add("--layers --n-layer --num-hidden-layers", &p.shape.layers, "number of layers", "N");
  o.add("--width --n-embd --hidden-size", &p.shape.width, "hidden size", "N");
  o.add("--heads --n-head --num-attention-heads", &p.shape.heads, "number of attention heads", "N");
  o.add("--kv-heads --num-key-value-heads", &p.shape.kv_heads,
        "llama: number of key/value heads; 0 for the number of heads", "N");
  o.add("--ffn --intermediate-size", &p.shape.ffn, "feed-forward size; 0 for the family's usual one", "N");
  o.add("--dropout", &p.shape.dropout, "dropout, where the family has it", "X");
  o.add("--tie-word-embeddings", &p.shape.tied, "share the input and output embeddings");
  o.add("--attention", &p.shape.attention,
        "attention score of rnn, lstm and gru encoder-decoders: general, dot, concat, location, additive, or "
        "none",
        "NAME");
  o.add(
      "--local-attention", &p.shape.local_attention,
      "rnn, lstm and gru encoder-decoders: attend to a window of the source: monotonic, predictive, or none",
      "NAME");
  o.add("--tokenizer", &p.tokenizer,
        "tokenizer file or folder, or the kind to train on the data: char, bpe, wordpiece or unigram; if not "
        "set the model's own, or bpe (bert: wordpiece)",
        "PATH");
  o.add("--vocab-size", &p.vocab_size, "vocabulary size of a tokenizer trained here", "N");
  o.group("Objective");
  o.add("--objective", &p.objective,
        "auto: by the model (next token, next and previous token, masked tokens, corrupted spans, infilling, "
        "permuted order for XLNet, "
        "replaced tokens for ELECTRA); seq2seq: an encoder-decoder on source and target",
        "NAME");
  o.add("--generator-size", &p.generator_size,
        "ELECTRA: width and heads of the generator, as a share of the model's", "X");
  o.add("--sequence-len --context --block-size", &p.sequence_len, "tokens per sequence", "N");
  o.add("--next-sentence", &p.shape.next_sentence, "bert: add next-sentence prediction");
  o.add("--prompt", &p.prompt, "prompt of the samples", "TEXT");
  declare_qat(o, p.common);
}

// The tokenizer of --tokenizer, of the base model or of the prepared data, or one trained on the data.
Result<FoundTokenizer> open_tokenizer(const Pretrain& p, ThreadPool& pool) {
  const std::string kind = p.tokenizer.empty() ? default_tokenizer(p.model_type()) : p.tokenizer;
  const std::vector<std::string> control = control_tokens(p.model_type(), kind);
  // Sources end with the end token in training, so they must in translation too.
  std::string end;
  for (const std::string& token : control)
    if (p.objective == "seq2seq" && (token == "</s>" || token == "<|endoftext|>")) end = token;
  MAKAR_TRY(
      FoundTokenizer found,
      find_tokenizer(path_exists(p.tokenizer) ? p.tokenizer : p.base_model, p.common.datasets,
                     {kind, p.vocab_size, control, p.common.loop.output_dir + "/data/tokenizer", end}, pool));
  if (found.trained) say(p.common, fmt::format("tokenizer: {}, trained on the data", kind));
  return found;
}

Result<LoadedModel> find_model(Pretrain& p, const Tokenizer& tokenizer, const TokenRoles& roles) {
  if (!p.base_model.empty()) return load_model(p.base_model, {.trainable = true});
  Json json = p.config_json;
  if (p.config.empty()) {
    if (p.depth > 0) {
      if (p.depth > 512) return error_at("depth", "expected 1 to 512, got {}", p.depth);
      set_depth(p.shape, p.depth);
    }
    p.shape.context = p.sequence_len;
    p.shape.encoder_decoder = p.objective == "seq2seq";
    p.shape.vocab = static_cast<int64_t>(tokenizer.vocab_size());
    MAKAR_TRY(json, shape_config(p.shape));
  }
  set_special_ids(json, roles, tokenizer);
  MAKAR_TRY(LoadedModel created, make_model(Config(json, "config.json")));
  initialize(*created.model, static_cast<uint64_t>(p.common.loop.seed));
  return created;
}

// Reads --config: its family determines the control tokens, its vocabulary size limits a new tokenizer.
Status read_config(Pretrain& p) {
  if (p.config.empty()) return Done{};
  MAKAR_TRY(const std::string text, read_file(is_folder(p.config) ? p.config + "/config.json" : p.config));
  MAKAR_TRY(const Config config, Config::parse(text, p.config));
  p.config_json = config.json();
  const Json vocab = p.config_json.value("vocab_size", Json());
  if (!p.vocab_size_given && vocab.is_number_integer()) p.vocab_size = vocab.get<int64_t>();
  return Done{};
}

CausalTask::Sampler sampler(const Model& model, const Tokenizer& tokenizer, const Pretrain& p) {
  return [&model, tokenizer, &p](Device& device, int64_t step) -> Result<std::string> {
    MAKAR_TRY(const Encoding prompt, tokenizer.encode(p.prompt));
    if (prompt.ids.empty()) return std::string();
    GenerateOptions o;
    o.max_new_tokens = std::min<int64_t>(200, p.sequence_len - static_cast<int64_t>(prompt.ids.size()) - 1);
    o.sampler = {0.8f, 200, 1.0f, static_cast<uint64_t>(step)};
    if (model.spec().eos.empty()) o.stop = {-1};  // no token ends the sample
    if (o.max_new_tokens < 1) return std::string();
    MAKAR_TRY(const auto ids, generate(model, device, {prompt.ids.begin(), prompt.ids.end()}, o));
    return tokenizer.decode(std::vector<uint32_t>(ids.begin(), ids.end()), true);
  };
}

Status check_fits(const Model& model, const Tokenizer& tokenizer, int64_t context) {
  const ModelSpec& spec = model.spec();
  if (spec.reads_images() && !spec.image_input)
    return error_of(Error::Kind::kUnsupported, "model",
                    "a {} does not continue text; makar pretrain trains only text models", spec.architecture);
  if (spec.vocab < static_cast<int64_t>(tokenizer.vocab_size()))
    return error_at("tokenizer", "has {} tokens; the model's vocabulary has {}", tokenizer.vocab_size(),
                    spec.vocab);
  if (context < 2 || (spec.max_positions > 0 && context > spec.max_positions))
    return error_at("sequence_len", "expected 2 to the model's {} positions, got {}", spec.max_positions,
                    context);
  return Done{};
}

// A task and its tokens per step.
struct PretrainTask {
  std::unique_ptr<Task> task;
  int64_t tokens_per_step = 0;
  LoadedModel generator = {};  // of ELECTRA
};

Result<PretrainTask> pair_task(const Pretrain& p, Model& model, const Tokenizer& tokenizer, int64_t eos,
                               Json& identity) {
  if (!model.spec().encoder || !model.spec().decoder)
    return error_of(Error::Kind::kUnsupported, "objective", "needs an encoder-decoder; a {} is not one",
                    model.spec().architecture);
  if (eos < 0) return error_at("tokenizer", "has no end token");
  MAKAR_TRY(PairData data, open_pairs(dataset_options(p.common), tokenizer, eos, p.sequence_len, identity));
  const LoopSettings& loop = p.common.loop;
  MAKAR_TRY(const int64_t tokens, mean_tokens(data));
  PretrainTask out;
  out.tokens_per_step = tokens * loop.micro_batch_size * loop.gradient_accumulation_steps;
  out.task =
      std::make_unique<PairTask>(model, std::move(data), loop.micro_batch_size,
                                 static_cast<uint64_t>(loop.seed), static_cast<float>(loop.label_smoothing));
  return out;
}

Result<PretrainTask> text_task(const Pretrain& p, Model& model, const Tokenizer& tokenizer, int64_t eos,
                               ThreadPool& pool, Json& identity) {
  const LoopSettings& loop = p.common.loop;
  const bool bidirectional = model.spec().head.kind == HeadKind::kBidirectionalLm;
  const bool causal = bidirectional || model.spec().continues_text();
  const SpecialIds special = SpecialIds::of(tokenizer);
  NoiseKind noise = NoiseKind::kMasked;
  if (!causal) {
    MAKAR_TRY(noise, DenoiseTask::noise_of(model.spec(), special));
    if (p.sequence_len < 8) return error_at("sequence_len", "expected 8 or more, got {}", p.sequence_len);
  }
  MAKAR_TRY(TokenDatasets data,
            open_token_datasets(dataset_options(p.common), tokenizer, causal ? eos : -1, pool, identity));
  const CausalOptions o{p.sequence_len, loop.micro_batch_size, static_cast<uint64_t>(loop.seed),
                        static_cast<float>(loop.label_smoothing)};
  PretrainTask out;
  if (noise == NoiseKind::kReplaced) {
    MAKAR_TRY(out.generator, make_generator(model, p.generator_size, static_cast<uint64_t>(loop.seed) + 1));
    identity["generator_size"] = p.generator_size;
  }
  out.tokens_per_step = o.context * o.batch * loop.gradient_accumulation_steps;
  if (causal)
    out.task =
        std::make_unique<CausalTask>(model, std::move(data.train), std::move(data.validation), o,
                                     bidirectional ? CausalTask::Sampler() : sampler(model, tokenizer, p));
  else
    out.task = std::make_unique<DenoiseTask>(model, std::move(data.train), std::move(data.validation), o,
                                             special, noise, out.generator.model.get());
  return out;
}

int train(Pretrain& p, const std::string& command) {
  ThreadPool pool(static_cast<int>(p.common.threads));
  const auto compute = open_device_option(p.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  if (const Status s = make_folder(p.common.loop.output_dir); !s.ok()) return report(s.error());
  if (const Status s = read_config(p); !s.ok()) return report(s.error());
  const auto found = open_tokenizer(p, pool);
  if (!found.ok()) return report(found.error());
  const Tokenizer& tokenizer = found->tokenizer;
  const TokenRoles roles = TokenRoles::of(tokenizer, found->folder);
  const auto loaded = find_model(p, tokenizer, roles);
  if (!loaded.ok()) return report(loaded.error());
  Model& model = *loaded->model;
  const int64_t eos = model.spec().eos.empty() ? roles.id("eos_token") : model.spec().eos.front();
  if (const Status s = check_fits(model, tokenizer, p.sequence_len); !s.ok()) return report(s.error());
  Json identity = {{"config", model.spec().config},
                   {"base_model", p.base_model},
                   {"sequence_len", p.sequence_len},
                   {"objective", p.objective}};
  auto task = p.objective == "seq2seq" ? pair_task(p, model, tokenizer, eos, identity)
                                       : text_task(p, model, tokenizer, eos, pool, identity);
  if (!task.ok()) return report(task.error());
  LoopSettings& loop = p.common.loop;
  const int64_t count = model.parameters().count();
  if (p.depth > 0 && loop.max_steps == 0)
    loop.max_steps = std::max<int64_t>(1, optimal_tokens(count) / task->tokens_per_step);
  const uint64_t epoch = task->task->batches_per_epoch();
  const auto accumulation = static_cast<uint64_t>(loop.gradient_accumulation_steps);
  say(p.common,
      fmt::format("{} of {} parameters; {} of about {} tokens; an epoch is {}", model.spec().architecture,
                  count, with_plural(static_cast<uint64_t>(total_steps(loop, epoch)), "step"),
                  task->tokens_per_step, with_plural((epoch + accumulation - 1) / accumulation, "step")));
  const auto round = open_qat(p.common, model, false, pool, identity);
  if (!round.ok()) return report(round.error()), 2;
  TrainJob job{p.common,      *loaded,      *task->task, device,   nullptr,      &tokenizer,
               found->folder, "pretrained", command,     identity, p.base_model, roles.to_json()};
  job.round = *round;
  if (const LoadedModel& generator = task->generator; generator.model) {
    say(p.common, fmt::format("and a generator of {} parameters", generator.model->parameters().count()));
    job.others = {{generator.model.get(), "generator"}};
    job.save_others = [&]() -> Status {
      const std::string folder = loop.output_dir + "/generator";
      MAKAR_RETURN_IF_ERROR(make_folder(folder));
      MAKAR_TRY(const LoadedModel whole, standalone_generator(generator, model));
      return save_model(folder, *whole.model, *whole.family);
    };
  }
  return run_job(job);
}

}  // namespace

int run_pretrain(const std::vector<std::string>& arguments) {
  Pretrain p;
  p.common.loop.output_dir = "runs/pretrain", p.common.val_set_size = 0.05;
  Options options("pretrain",
                  "Train a language model on text. A RECIPE.yaml and key=value arguments set options too.",
                  "makar pretrain recipes/shakespeare_char.yaml max_steps=500");
  declare(options, p);
  if (const auto code = parse_training(options, arguments, p.common)) return *code;
  p.vocab_size_given = options.given("--vocab-size");
  if (p.objective != "auto" && p.objective != "seq2seq")
    return report(error_at("objective", "expected auto or seq2seq, got '{}'", p.objective)), 2;
  return train(p, command_line("pretrain", arguments));
}

}  // namespace makar
