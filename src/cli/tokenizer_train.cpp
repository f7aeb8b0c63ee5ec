// makar tokenizer train: trains a tokenizer on text files and writes a tokenizer.json folder.
#include <fmt/format.h>

#include <chrono>

#include "base/file.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "text/train/train.h"

namespace makar {
namespace {

struct TrainCommand {
  std::vector<std::string> files, special;
  std::string out = "tokenizer", model = "bpe", pipeline, like, unk, max_memory = "4G", temporary,
              field = "text", prefix, suffix;
  int64_t vocab_size = 30'000, min_frequency = 0, limit_alphabet = 0, max_token_length = 0, threads = 0,
          seed = 0, seed_size = 1'000'000;
  double sample = 1, shrinking_factor = 0.75;
  bool jsonl = false, likelihood = false, quiet = false, json = false;
};

// Parses 512M, 4G, 1.5GiB or plain bytes.
Result<size_t> parse_memory_size(const std::string& text) {
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string unit = text.substr(end);
  const double scale = unit.empty() || unit == "B"        ? 1
                       : unit[0] == 'K' || unit[0] == 'k' ? 0x1p10
                       : unit[0] == 'M'                   ? 0x1p20
                       : unit[0] == 'G'                   ? 0x1p30
                       : unit[0] == 'T'                   ? 0x1p40
                                                          : 0;
  const std::string rest = unit.empty() ? "" : unit.substr(1);
  const bool known_unit = rest.empty() || rest == "B" || rest == "iB";
  if (end == 0 || scale == 0 || !known_unit || !(number > 0 && number * scale < 0x1p60))
    return error_at("--max-memory", "expected a size like 512M or 4G, got '{}'", text);
  return static_cast<size_t>(number * scale);
}

Result<TrainSettings> settings_of(const TrainCommand& c) {
  using Model = TrainSettings::Model;
  TrainSettings s;
  const std::vector<std::pair<std::string, Model>> models = {{"bpe", Model::kBpe},
                                                             {"wordpiece", Model::kWordPiece},
                                                             {"unigram", Model::kUnigram},
                                                             {"word", Model::kWord},
                                                             {"char", Model::kCharacter}};
  // The default pipeline of each model.
  const char* const pipelines[] = {"byte-level", "bert", "metaspace", "whitespace", "none"};
  std::vector<std::string> known;
  std::string pipeline = c.pipeline;
  bool found = false;
  for (size_t i = 0; i < models.size(); ++i) {
    known.push_back(models[i].first);
    if (models[i].first != c.model) continue;
    found = true;
    s.model = models[i].second;
    if (pipeline.empty()) pipeline = pipelines[i];
  }
  if (!found)
    return error_at("--model-type", "unknown model '{}'{}; expected one of: {}", c.model,
                    did_you_mean(c.model, known), fmt::join(known, ", "));
  if (c.vocab_size < 1 || c.vocab_size > (1 << 30))
    return error_at("--vocab-size", "expected 1 to 2^30, got {}", c.vocab_size);
  for (const auto& [flag, value, min] : {std::tuple("--min-frequency", c.min_frequency, 0),
                                         {"--limit-alphabet", c.limit_alphabet, 0},
                                         {"--max-token-length", c.max_token_length, 0},
                                         {"--seed-size", c.seed_size, 1}})
    if (value < min) return error_at(flag, "must be {} or more, got {}", min, value);
  s.special_tokens = c.special;
  if (s.special_tokens.empty() && s.model == Model::kWordPiece)
    s.special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  if (s.special_tokens.empty() && s.model == Model::kUnigram) s.special_tokens = {"<pad>", "</s>", "<unk>"};
  if (s.special_tokens.empty() && s.model == Model::kBpe) s.special_tokens = {"<|endoftext|>"};
  if (c.like.empty()) {
    MAKAR_TRY(s.pipeline, TrainPipeline::named(pipeline, s.special_tokens));
  } else {
    MAKAR_TRY(const Json other, read_json(is_folder(c.like) ? c.like + "/tokenizer.json" : c.like));
    if (!other.is_object()) return error_at(c.like, "is not a tokenizer.json");
    const auto stage = [&](const char* name) { return other.contains(name) ? other[name] : Json(); };
    s.pipeline = {stage("normalizer"), stage("pre_tokenizer"), stage("post_processor"), stage("decoder")};
  }
  s.vocab_size = static_cast<size_t>(c.vocab_size);
  s.min_frequency = static_cast<uint64_t>(c.min_frequency);
  s.unk_token = c.unk;
  if (c.limit_alphabet > 0) s.bpe.limit_alphabet = static_cast<size_t>(c.limit_alphabet);
  s.bpe.max_token_length = static_cast<size_t>(c.max_token_length);
  s.bpe.continuing_prefix = c.prefix, s.bpe.end_suffix = c.suffix;
  s.bpe.score_by_likelihood = c.likelihood;
  s.unigram.seed_size = static_cast<size_t>(c.seed_size);
  s.unigram.shrinking_factor = c.shrinking_factor;
  if (c.max_token_length > 0) s.unigram.max_piece_length = static_cast<size_t>(c.max_token_length);
  s.temporary_folder = c.temporary;
  MAKAR_TRY(s.max_memory, parse_memory_size(c.max_memory));
  return s;
}

Status save(const TrainReport& report, const TrainSettings& s, const std::string& folder) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  MAKAR_RETURN_IF_ERROR(write_file(folder + "/tokenizer.json", report.tokenizer.dump(2) + "\n"));
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  // Sets a role to the first of its usual spellings that is a special token.
  const auto set_role = [&](const char* key, std::initializer_list<const char*> spellings) {
    for (const char* token : spellings)
      if (std::find(s.special_tokens.begin(), s.special_tokens.end(), token) != s.special_tokens.end()) {
        config[key] = token;
        return;
      }
  };
  set_role("bos_token", {"<s>", "<|begin_of_text|>"});
  set_role("eos_token", {"</s>", "<|end_of_text|>", "<|endoftext|>"});
  set_role("unk_token", {"<unk>", "[UNK]"});
  set_role("pad_token", {"<pad>", "[PAD]"});
  set_role("cls_token", {"[CLS]"});
  set_role("sep_token", {"[SEP]"});
  set_role("mask_token", {"[MASK]", "<mask>"});
  return write_file(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

void declare(Options& options, TrainCommand& c) {
  options.group("Data");
  options.positional("FILES", &c.files, "text files, or JSONL records with a text; - for standard input");
  options.add("--jsonl", &c.jsonl, "the files hold JSON records; implied by names that end in .jsonl");
  options.add("--field", &c.field, "field with the text in JSON records", "NAME");
  options.add("--sample", &c.sample, "use this share of the lines", "X");
  options.add("--seed", &c.seed, "seed for the sample", "N");
  options.group("Tokenizer");
  options.add("--model-type --type", &c.model, "bpe, wordpiece, unigram, word or char", "NAME");
  options.add("--vocab-size", &c.vocab_size, "number of tokens, special ones included", "N");
  options.add(
      "--pipeline", &c.pipeline,
      "byte-level, llama3, whitespace, bert, metaspace or none; the usual one of the model type if not "
      "set",
      "NAME");
  options.add("--like", &c.like, "use the pipeline of this tokenizer.json", "FILE");
  options.add("--special --special-tokens", &c.special, "special token; may be repeated", "TOKEN");
  options.add("--unk --unk-token", &c.unk, "token for unknown text", "TOKEN");
  options.add("--min-frequency", &c.min_frequency, "minimum count of a merge or word", "N");
  options.add("--limit-alphabet", &c.limit_alphabet, "maximum number of characters; 0 for all", "N");
  options.add("--max-token-length", &c.max_token_length,
              "maximum length in characters; 0 for no limit (unigram: 16)", "N");
  options.add("--prefix", &c.prefix, "prefix of tokens that continue a word, such as ##", "TEXT");
  options.add("--suffix", &c.suffix, "suffix of tokens that end a word, such as </w>", "TEXT");
  options.add("--likelihood", &c.likelihood,
              "wordpiece: merge by freq(ab) / (freq(a) freq(b)) instead of by count");
  options.add("--seed-size", &c.seed_size, "unigram: number of initial pieces", "N");
  options.add("--shrinking-factor", &c.shrinking_factor, "unigram: share of pieces kept by each pruning",
              "X");
  options.group("Output");
  options.add("-o --output --out", &c.out, "folder for tokenizer.json", "DIR");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the report as JSON");
  options.group("Performance");
  options.add("--max-memory", &c.max_memory,
              "memory limit, at least 64M: spills to disk, then drops the rarest words", "SIZE");
  options.add("--temporary", &c.temporary, "folder for spilled data; TMPDIR or /tmp if not set", "DIR");
  declare_threads(options, c.threads);
}

}  // namespace

int run_tokenizer_train(const std::vector<std::string>& arguments) {
  TrainCommand c;
  Options options("tokenizer train", "Train a tokenizer on text files.",
                  "makar tokenizer train books.txt --vocab-size 8000 -o tokenizer/");
  declare(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto settings = settings_of(c);
  if (!settings.ok()) return report(settings.error()), 2;
  CorpusOptions corpus_options{c.files, c.jsonl, c.field, c.sample, static_cast<uint64_t>(c.seed)};
  auto corpus = Corpus::open(corpus_options);
  if (!corpus.ok()) return report(corpus.error());
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(c.threads, 0, 256)));
  const auto begin = std::chrono::steady_clock::now();
  Result<TrainReport> trained = [&] {
    Progress progress(c.quiet || c.json);
    return train_tokenizer(*corpus, *settings, pool, [&](const TrainStage& stage) {
      progress.show(stage.name, stage.done, stage.total,
                    stage.loss != 0 ? fmt::format("loss {:.4f}", stage.loss) : "");
    });
  }();
  if (!trained.ok()) return report(trained.error());
  if (const Status saved = save(*trained, *settings, c.out); !saved.ok()) return report(saved.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const size_t tokens = trained->tokenizer["model"]["vocab"].size();
  if (c.json) {
    Json out = {{"out", c.out},
                {"tokens", tokens},
                {"bytes", trained->bytes},
                {"sequences", trained->sequences},
                {"words", trained->words},
                {"different_words", trained->different_words},
                {"dropped_words", trained->dropped_words},
                {"runs_on_disk", trained->runs},
                {"seconds", seconds}};
    if (trained->loss != 0) out["loss"] = trained->loss;
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: {} tokens from {} words ({} different, {:.1f} MB) in {:.2f} s\n", c.out, tokens,
               trained->words, trained->different_words, static_cast<double>(trained->bytes) * 1e-6, seconds);
  }
  if (trained->dropped_words)
    fmt::print(stderr,
               "makar: warning: dropped {} of the rarest words ({:.2f}% of the text) to stay within "
               "--max-memory\n",
               trained->dropped_words,
               100.0 * static_cast<double>(trained->dropped_total) / static_cast<double>(trained->words));
  return 0;
}

}  // namespace makar
