// makar pretrain: a new model, or one that goes on, on raw text.
#include <fmt/format.h>

#include "base/file.h"
#include "base/sha256.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "data/train_tokenizer.h"
#include "infer/generate.h"
#include "train/denoise.h"
#include "train/shapes.h"

namespace makar {
namespace {

struct Pretrain {
  TrainCommon common;
  ShapeOptions shape;
  std::string base_model, config, tokenizer, prompt = "\n", objective = "auto";
  int64_t depth = 0, vocab_size = 8192, sequence_len = 256;
};

void declare(Options& o, Pretrain& p) {
  declare_common(o, p.common);
  o.add("-m --base-model --model", &p.base_model, "go on training this model folder; else a new one is made",
        "DIR");
  o.add("--config", &p.config, "the config.json of the new model, or a folder that has one", "FILE");
  o.add("--model-type", &p.shape.type, "shape of the new model: gpt2, llama, bert, t5 or bart", "NAME");
  o.add("--depth", &p.depth,
        "one dial instead of the next four: layers, width and heads of a sensible size, tokens 20 for each "
        "parameter",
        "N");
  o.add("--layers --n-layer --num-hidden-layers", &p.shape.layers, "blocks", "N");
  o.add("--width --n-embd --hidden-size", &p.shape.width, "of the residual stream", "N");
  o.add("--heads --n-head --num-attention-heads", &p.shape.heads, "of attention", "N");
  o.add("--ffn --intermediate-size", &p.shape.ffn, "width of the feed-forward; 0: the family's usual", "N");
  o.add("--kv-heads --num-key-value-heads", &p.shape.kv_heads, "heads for keys and values (llama); 0: all",
        "N");
  o.add("--dropout", &p.shape.dropout, "everywhere the family has one", "X");
  o.add("--tie-word-embeddings", &p.shape.tied, "one table for input and output");
  o.add("--next-sentence", &p.shape.next_sentence, "bert: learn whether one text follows another too");
  o.add("--sequence-len --context --block-size", &p.sequence_len, "tokens a window", "N");
  o.add("--tokenizer", &p.tokenizer,
        "a tokenizer file or folder, or what to train on the data: char, bpe, wordpiece or unigram (by "
        "default the "
        "model's own, or bpe; wordpiece for bert)",
        "PATH");
  o.add("--vocab-size", &p.vocab_size, "of a tokenizer that is trained here", "N");
  o.add("--objective", &p.objective,
        "auto: what the model's head is for (next token, masked tokens, corrupted spans, infilling); "
        "seq2seq: an "
        "encoder-decoder on source and target",
        "NAME");
  o.add("--prompt", &p.prompt, "what samples begin with", "TEXT");
}

// The control tokens that training a model of this shape needs.
std::vector<std::string> special_tokens(const std::string& type, const std::string& kind) {
  if (type == "bert") return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  if (type == "bart") return {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
  if (type != "t5")
    return kind == "char" ? std::vector<std::string>{} : std::vector<std::string>{"<|endoftext|>"};
  std::vector<std::string> out = {"<pad>", "</s>", "<unk>"};
  for (int i = 0; i < 100; ++i) out.push_back(fmt::format("<extra_id_{}>", i));
  return out;
}

struct FoundTokenizer {
  Tokenizer tokenizer;
  std::string folder;
};

// The tokenizer named, that of the base model, or a new one, which is kept in the run's folder.
Result<FoundTokenizer> find_tokenizer(const Pretrain& p, ThreadPool& pool) {
  const bool named = is_there(p.tokenizer);
  if (named || !p.base_model.empty()) {
    const std::string path = named ? p.tokenizer : p.base_model;
    MAKAR_TRY(Tokenizer t, Tokenizer::load(path));
    return FoundTokenizer{t, is_folder(path) ? path : ""};
  }
  for (const std::string& text : p.common.datasets) {  // prepared data brings its own
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    if (!TokenStore::has(spec.path, "train")) continue;
    MAKAR_TRY(Tokenizer t, Tokenizer::load(spec.path));
    return FoundTokenizer{t, spec.path};
  }
  const std::string kept = p.common.loop.output_dir + "/data/tokenizer";
  const std::string kind = !p.tokenizer.empty() ? p.tokenizer : p.shape.type == "bert" ? "wordpiece" : "bpe";
  NewTokenizer wanted{kind, p.vocab_size, special_tokens(p.shape.type, kind), kept};
  std::vector<std::string> paths;
  for (const std::string& text : p.common.datasets) {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    paths.push_back(spec.path);
  }
  MAKAR_TRY(const std::string files, fingerprint(paths));
  const Json how = {
      {"kind", kind}, {"special", wanted.special}, {"vocab_size", p.vocab_size}, {"files", files}};
  const auto before = read_json(kept + "/trained_from.json");
  if (!before.ok() || *before != how || !is_file(kept + "/tokenizer.json")) {
    MAKAR_TRY(const Json trained, train_tokenizer_on(paths, wanted, pool));
    MAKAR_CHECK_OK(write_file(kept + "/tokenizer.json", trained.dump() + "\n"));
    MAKAR_CHECK_OK(write_file(kept + "/trained_from.json", how.dump() + "\n"));
    say(p.common, fmt::format("tokenizer: {}, trained on the data", kind));
  }
  MAKAR_TRY(Tokenizer t, Tokenizer::load(kept + "/tokenizer.json"));
  return FoundTokenizer{t, ""};
}

Result<LoadedModel> find_model(Pretrain& p, const Tokenizer& tokenizer, int64_t eos) {
  if (!p.base_model.empty()) return load_model(p.base_model, {true});
  Json json;
  if (!p.config.empty()) {
    MAKAR_TRY(json, read_json(is_folder(p.config) ? p.config + "/config.json" : p.config));
  } else {
    if (p.depth > 0) {
      if (p.depth > 512) return error_at("depth", "expected 1 to 512, got {}", p.depth);
      set_depth(p.shape, p.depth);
    }
    p.shape.context = p.sequence_len;
    p.shape.vocab = static_cast<int64_t>(tokenizer.vocab_size());
    p.shape.eos = p.shape.bos = eos;
    for (const char* name : {"[PAD]", "<pad>"})
      if (const auto id = tokenizer.id(name)) p.shape.pad = *id;
    MAKAR_TRY(json, shape_config(p.shape));
  }
  MAKAR_TRY(LoadedModel made, make_model(Config(json, "config.json")));
  initialize(*made.model, static_cast<uint64_t>(p.common.loop.seed));
  return made;
}

CausalTask::Sampler sampler(const Model& model, const Tokenizer& tokenizer, const Pretrain& p) {
  return [&model, tokenizer, &p](ThreadPool& pool, int64_t step) -> Result<std::string> {
    MAKAR_TRY(const Encoding prompt, tokenizer.encode(p.prompt));
    if (prompt.ids.empty()) return std::string();
    GenerateOptions o;
    o.max_new_tokens = std::min<int64_t>(200, p.sequence_len - static_cast<int64_t>(prompt.ids.size()) - 1);
    o.sampler = {0.8f, 200, 1.0f, static_cast<uint64_t>(step)};
    if (model.spec().eos.empty()) o.stop = {-1};
    if (o.max_new_tokens < 1) return std::string();
    MAKAR_TRY(const auto ids, generate(model, pool, {prompt.ids.begin(), prompt.ids.end()}, o));
    return tokenizer.decode(std::vector<uint32_t>(ids.begin(), ids.end()), true);
  };
}

Status check_fits(const Model& model, const Tokenizer& tokenizer, int64_t context) {
  const ModelSpec& spec = model.spec();
  if (spec.vocab < static_cast<int64_t>(tokenizer.vocab_size()))
    return error_at("tokenizer", "has {} tokens; the model's vocabulary has {}", tokenizer.vocab_size(),
                    spec.vocab);
  if (context < 2 || (spec.max_positions > 0 && context > spec.max_positions))
    return error_at("sequence_len", "expected 2 to the model's {} positions, got {}", spec.max_positions,
                    context);
  return Done{};
}

// What a task is trained on, and the task.
struct Made {
  std::unique_ptr<Task> task;
  int64_t tokens_a_step = 0;
};

Result<Made> pair_task(Pretrain& p, Model& model, const Tokenizer& tokenizer, int64_t eos, Json& identity) {
  if (!model.spec().encoder || !model.spec().decoder)
    return error_of(Error::Kind::kUnsupported, "objective", "a {} is no encoder-decoder",
                    model.spec().architecture);
  if (eos < 0) return error_at("tokenizer", "has no end token");
  PairData all(p.common.loop.output_dir);
  const auto add = [&](const std::string& text, bool held_out) -> Status {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    const double share = held_out ? 1 : p.common.val_datasets.empty() ? p.common.val_set_size : 0;
    const size_t before = all.train.size() + all.validation.size();
    MAKAR_CHECK_OK(read_pairs(spec.path, tokenizer, eos, p.sequence_len, share, all));
    say(p.common, fmt::format("{}: {} pairs (schema: source-target), {} records could not be used", spec.path,
                              all.train.size() + all.validation.size() - before, all.bad.count));
    for (const std::string& line : all.bad.told) say(p.common, "  " + line);
    return Done{};
  };
  for (const std::string& text : p.common.datasets) MAKAR_CHECK_OK(add(text, false));
  for (const std::string& text : p.common.val_datasets) MAKAR_CHECK_OK(add(text, true));
  if (all.train.empty()) return error_at("datasets", "there is no pair of source and target to learn from");
  Sha256 sum;
  int64_t tokens = 0;
  for (size_t i = 0; i < all.train.size(); ++i) {
    MAKAR_TRY(const TokenPair pair, all.train.read(i));
    sum.add(std::as_bytes(std::span(pair.source))), sum.add(std::as_bytes(std::span(pair.target)));
    tokens += static_cast<int64_t>(pair.source.size() + pair.target.size());
  }
  identity["data"] = sum.hex();
  const LoopSettings& loop = p.common.loop;
  Made made;
  made.tokens_a_step = tokens / static_cast<int64_t>(all.train.size()) * loop.micro_batch_size *
                       loop.gradient_accumulation_steps;
  made.task =
      std::make_unique<PairTask>(model, std::move(all), loop.micro_batch_size,
                                 static_cast<uint64_t>(loop.seed), static_cast<float>(loop.label_smoothing));
  return made;
}

Result<Made> text_task(Pretrain& p, Model& model, const Tokenizer& tokenizer, int64_t eos, ThreadPool& pool,
                       Json& identity) {
  const LoopSettings& loop = p.common.loop;
  const bool causal = model.spec().head.kind == HeadKind::kCausalLm && !model.spec().encoder;
  const SpecialIds special = SpecialIds::of(tokenizer);
  Hiding hiding = Hiding::kMasked;
  if (!causal) {
    MAKAR_TRY(hiding, DenoiseTask::hiding_of(model.spec(), special));
    if (p.sequence_len < 8) return error_at("sequence_len", "expected 8 or more, got {}", p.sequence_len);
  }
  std::vector<Source> sources;
  std::vector<TokenStore> validation;
  MAKAR_CHECK_OK(open_sources(p.common, tokenizer, causal ? eos : -1, pool, sources, validation, identity));
  const CausalOptions o{p.sequence_len, loop.micro_batch_size, static_cast<uint64_t>(loop.seed),
                        static_cast<float>(loop.label_smoothing)};
  Made made;
  made.tokens_a_step = o.context * o.batch * loop.gradient_accumulation_steps;
  if (causal)
    made.task = std::make_unique<CausalTask>(model, std::move(sources), std::move(validation), o,
                                             sampler(model, tokenizer, p));
  else
    made.task =
        std::make_unique<DenoiseTask>(model, std::move(sources), std::move(validation), o, special, hiding);
  return made;
}

int train(Pretrain& p, const std::string& command) {
  ThreadPool pool(static_cast<int>(p.common.threads));
  if (const Status s = make_folder(p.common.loop.output_dir); !s.ok()) return report(s.error());
  const auto words = find_tokenizer(p, pool);
  if (!words.ok()) return report(words.error());
  int64_t eos = -1;
  for (const char* name : {"<|endoftext|>", "</s>", "<|end_of_text|>", "[SEP]"})
    if (const auto id = words->tokenizer.id(name); id && eos < 0) eos = *id;
  const auto loaded = find_model(p, words->tokenizer, eos);
  if (!loaded.ok()) return report(loaded.error());
  Model& model = *loaded->model;
  if (const Status s = check_fits(model, words->tokenizer, p.sequence_len); !s.ok()) return report(s.error());
  Json identity = {{"config", model.spec().config},
                   {"base_model", p.base_model},
                   {"sequence_len", p.sequence_len},
                   {"objective", p.objective}};
  auto made = p.objective == "seq2seq" ? pair_task(p, model, words->tokenizer, eos, identity)
                                       : text_task(p, model, words->tokenizer, eos, pool, identity);
  if (!made.ok()) return report(made.error());
  LoopSettings& loop = p.common.loop;
  const int64_t count = model.parameters().count();
  if (p.depth > 0 && loop.max_steps == 0)
    loop.max_steps = std::max<int64_t>(1, optimal_tokens(count) / made->tokens_a_step);
  const uint64_t epoch = made->task->batches_per_epoch();
  say(p.common, fmt::format("{} of {} parameters; {} steps of about {} tokens; an epoch is {} steps",
                            model.spec().architecture, count, total_steps(loop, epoch), made->tokens_a_step,
                            epoch / static_cast<uint64_t>(loop.gradient_accumulation_steps)));
  TrainJob job{p.common,      *loaded,      *made->task, pool,     nullptr, &words->tokenizer,
               words->folder, "pretrained", command,     identity, eos};
  return run_job(job);
}

}  // namespace

int run_pretrain(const std::vector<std::string>& arguments) {
  Pretrain p;
  p.common.val_set_size = 0.05;
  Options options("pretrain",
                  "Trains a language model on text; RECIPE.yaml and key=value words set options too.",
                  "makar pretrain recipes/shakespeare_char.yaml max_steps=500");
  declare(options, p);
  if (const auto code = parse_training(options, arguments, p.common)) return *code;
  if (p.objective != "auto" && p.objective != "seq2seq")
    return report(error_at("objective", "expected auto or seq2seq, got '{}'", p.objective)), 2;
  return train(p, command_line("pretrain", arguments));
}

}  // namespace makar
