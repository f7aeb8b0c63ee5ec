// makar pretrain: a new model, or one that goes on, on raw text.
#include <fmt/format.h>

#include "base/file.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "data/train_tokenizer.h"
#include "infer/generate.h"
#include "train/shapes.h"

namespace makar {
namespace {

struct Pretrain {
  TrainCommon common;
  ShapeOptions shape;
  std::string base_model, config, tokenizer = "bpe", prompt = "\n";
  int64_t depth = 0, vocab_size = 8192, sequence_len = 256;
};

void declare(Options& o, Pretrain& p) {
  declare_common(o, p.common);
  o.add("-m --base-model --model", &p.base_model, "go on training this model folder; else a new one is made",
        "DIR");
  o.add("--config", &p.config, "the config.json of the new model, or a folder that has one", "FILE");
  o.add("--model-type", &p.shape.type, "shape of the new model: gpt2 or llama", "NAME");
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
  o.add("--sequence-len --context --block-size", &p.sequence_len, "tokens a window", "N");
  o.add("--tokenizer", &p.tokenizer,
        "a tokenizer file or folder, or what to train on the data: char, bpe, unigram", "PATH");
  o.add("--vocab-size", &p.vocab_size, "of a tokenizer that is trained here", "N");
  o.add("--prompt", &p.prompt, "what samples begin with", "TEXT");
}

struct Words {
  Tokenizer tokenizer;
  std::string folder;
};

// The tokenizer named, that of the base model, or a new one, which is kept in the run's folder.
Result<Words> find_tokenizer(const Pretrain& p, ThreadPool& pool) {
  const bool named = is_there(p.tokenizer);
  if (named || !p.base_model.empty()) {
    const std::string path = named ? p.tokenizer : p.base_model;
    MAKAR_TRY(Tokenizer t, Tokenizer::load(path));
    return Words{t, is_folder(path) ? path : ""};
  }
  for (const std::string& text : p.common.datasets) {  // prepared data brings its own
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    if (!TokenStore::has(spec.path, "train")) continue;
    MAKAR_TRY(Tokenizer t, Tokenizer::load(spec.path));
    return Words{t, spec.path};
  }
  const std::string kept = p.common.loop.output_dir + "/data/tokenizer";
  NewTokenizer wanted{p.tokenizer, p.vocab_size, {}, kept};
  if (p.tokenizer != "char") wanted.special = {"<|endoftext|>"};
  const Json how = {{"kind", p.tokenizer}, {"vocab_size", p.vocab_size}, {"datasets", p.common.datasets}};
  const auto before = read_json(kept + "/trained_from.json");
  if (!before.ok() || *before != how || !is_file(kept + "/tokenizer.json")) {
    std::vector<std::string> paths;
    for (const std::string& text : p.common.datasets) {
      MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
      paths.push_back(spec.path);
    }
    MAKAR_TRY(const Json trained, train_tokenizer_on(paths, wanted, pool));
    MAKAR_CHECK_OK(write_file(kept + "/tokenizer.json", trained.dump() + "\n"));
    MAKAR_CHECK_OK(write_file(kept + "/trained_from.json", how.dump() + "\n"));
    say(p.common, fmt::format("tokenizer: {}, trained on the data", p.tokenizer));
  }
  MAKAR_TRY(Tokenizer t, Tokenizer::load(kept + "/tokenizer.json"));
  return Words{t, ""};
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
  if (spec.head.kind != HeadKind::kCausalLm || spec.encoder)
    return error_of(Error::Kind::kUnsupported, "pretrain", "a {} does not predict the next token",
                    spec.architecture);
  if (spec.vocab < static_cast<int64_t>(tokenizer.vocab_size()))
    return error_at("tokenizer", "has {} tokens; the model's vocabulary has {}", tokenizer.vocab_size(),
                    spec.vocab);
  if (context < 2 || (spec.max_positions > 0 && context > spec.max_positions))
    return error_at("sequence_len", "expected 2 to the model's {} positions, got {}", spec.max_positions,
                    context);
  return Done{};
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
  if (const Status s = check_fits(*loaded->model, words->tokenizer, p.sequence_len); !s.ok())
    return report(s.error());
  std::vector<Source> sources;
  std::vector<TokenStore> validation;
  Json identity = {{"config", loaded->model->spec().config},
                   {"base_model", p.base_model},
                   {"sequence_len", p.sequence_len}};
  const Status opened = open_sources(p.common, words->tokenizer, eos, pool, sources, validation, identity);
  if (!opened.ok()) return report(opened.error());
  LoopSettings& loop = p.common.loop;
  CausalOptions o{p.sequence_len, loop.micro_batch_size, static_cast<uint64_t>(loop.seed),
                  static_cast<float>(loop.label_smoothing)};
  CausalTask task(*loaded->model, std::move(sources), std::move(validation), o,
                  sampler(*loaded->model, words->tokenizer, p));
  const int64_t count = loaded->model->parameters().count(),
                a_step = o.context * o.batch * loop.gradient_accumulation_steps;
  if (p.depth > 0 && loop.max_steps == 0)
    loop.max_steps = std::max<int64_t>(1, optimal_tokens(count) / a_step);
  say(p.common,
      fmt::format("{} of {} parameters; {} steps of {} tokens; an epoch is {} steps",
                  loaded->model->spec().architecture, count, total_steps(loop, task.batches_per_epoch()),
                  a_step,
                  task.batches_per_epoch() / static_cast<uint64_t>(loop.gradient_accumulation_steps)));
  TrainJob job{p.common,      *loaded,      task,    pool,     nullptr, &words->tokenizer,
               words->folder, "pretrained", command, identity, eos};
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
  return train(p, command_line("pretrain", arguments));
}

}  // namespace makar
