// makar ngram: trains n-gram language models, scores texts with them, and generates.
#include <fmt/format.h>

#include "base/progress.h"
#include "cli/command.h"
#include "cli/data_paths.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "lexical/arpa.h"
#include "lexical/corpus.h"
#include "lexical/ngram_generate.h"
#include "lexical/ngram_train.h"

namespace makar {
namespace {

void declare_words(Options& options, WordOptions& words) {
  options.add("--split", &words.split, "space: split at white space; words: split off punctuation too",
              "NAME");
  options.add("--lower", &words.lower, "convert to lower case");
}

// "0,0,1"
Result<std::vector<int64_t>> read_counts(const std::string& text) {
  std::vector<int64_t> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != part.npos)
      return error_at("--prune", "expects counts separated by commas, such as 0,0,1, got '{}'", text);
    out.push_back(std::stoll(part));
    at = end + 1;
  }
  return out;
}

struct TrainNgrams {
  std::vector<std::string> paths;
  std::string output, prune;
  WordOptions words;
  NgramOptions model;
  int64_t order = 3, memory = 4096, min_count = 1;
  bool quiet = false, json = false;
};

// The words that occur at least `min_count` times.
Result<NumberedWords> count_words(const TrainNgrams& c, const std::vector<DataPath>& paths) {
  WordSplitter splitter(c.words);
  NumberedWords all, out;
  std::vector<int64_t> counts;
  size_t bytes = 0;
  MAKAR_RETURN_IF_ERROR(each_line(paths, [&](std::string_view line) -> Status {
    for (const std::string_view word : splitter.split(line)) {
      const uint32_t id = all.add(word);
      if (id == counts.size()) counts.push_back(0), bytes += 2 * word.size() + 128;  // estimate with overhead
      ++counts[id];
    }
    if (bytes > static_cast<size_t>(c.memory) << 20)
      return error_of(Error::Kind::kLimit, "--memory", "the vocabulary alone needs more than {} MB",
                      c.memory);
    return Done{};
  }));
  for (uint32_t i = 0; i < counts.size(); ++i)
    if (counts[i] >= c.min_count) out.add(all.word(i));
  return out;
}

Result<NgramModel> train(const TrainNgrams& c, const std::vector<DataPath>& paths) {
  Progress progress(c.quiet || c.json);
  SentenceNgrams counts(static_cast<int>(c.order), static_cast<size_t>(c.memory) << 20);
  NumberedWords known;
  if (c.min_count > 1) {
    MAKAR_TRY(known, count_words(c, paths));
    counts.limit_words(known);
  }
  WordSplitter splitter(c.words);
  MAKAR_RETURN_IF_ERROR(each_line(paths, [&](std::string_view line) -> Status {
    const auto& words = splitter.split(line);
    if (words.empty()) return Done{};
    MAKAR_RETURN_IF_ERROR(counts.add(words));
    progress.show("counting", counts.tokens, 0, fmt::format("{} MB", counts.bytes() >> 20));
    return Done{};
  }));
  return train_ngrams(std::move(counts), c.model);
}

int run_ngram_train(const std::vector<std::string>& arguments) {
  TrainNgrams c;
  Options options("ngram train", "Count the n-grams of texts and write a smoothed model as an ARPA file.",
                  "makar ngram train books/ --order 3 -o books.arpa");
  options.positional("PATHS", &c.paths,
                     "files and folders: text, JSONL, JSON, CSV, TSV, plain, gzip or zstd; each line is "
                     "a sentence");
  options.add("-o --output --out", &c.output, "ARPA file to write", "FILE").required = true;
  options.group("Model");
  options.add("-n --order", &c.order, "order of the model: longest n-gram in words, 1 to 10", "N");
  options.add("--smoothing", &c.model.smoothing,
              "kneser-ney (modified, interpolated), katz, good-turing or add-k", "NAME");
  options.add("--k", &c.model.k, "add-k: value added to every count", "X");
  options.add("--gt-max", &c.model.max_discounted, "good-turing, katz: the largest count that is discounted",
              "N");
  options.add("--prune", &c.prune,
              "drop n-grams that occur at most this often: one count per length, such as 0,0,1", "COUNTS");
  options.add("--min-word-count", &c.min_count, "words with fewer occurrences become <unk>", "N");
  options.group("Words");
  declare_words(options, c.words);
  options.group("Performance");
  options.add("--memory", &c.memory, "memory limit for counts, in MB", "MB");
  options.group("Output");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the numbers of n-grams as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.order < 1 || c.order > kMaxOrder)
    return report(error_at("--order", "must be 1 to {}, got {}", kMaxOrder, c.order)), 2;
  if (c.memory < 1 || c.memory > int64_t{1} << 24)
    return report(error_at("--memory", "must be 1 to 16777216, got {}", c.memory)), 2;
  auto prune = read_counts(c.prune);
  if (!prune.ok()) return report(prune.error()), 2;
  c.model.prune = std::move(*prune);
  for (const Status& s : {check(c.model, static_cast<int>(c.order)), check(c.words)})
    if (!s.ok()) return report(s.error()), 2;
  c.model.warn = [&](const std::string& text) { warn(text); };
  const auto paths = parse_data_paths(c.paths);
  if (!paths.ok()) return report(paths.error()), 2;
  const auto model = train(c, *paths);
  if (!model.ok()) return report(model.error());
  if (const Status s = save_arpa(*model, c.output); !s.ok()) return report(s.error());
  Json out = {{"file", c.output},
              {"smoothing", c.model.smoothing},
              {"order", model->order()},
              {"ngrams", Json::array()}};
  std::string text = fmt::format("{}: {}, {} words", c.output, c.model.smoothing, model->words().size());
  for (int k = 1; k <= model->order(); ++k) {
    out["ngrams"].push_back(model->level(k).table.size());
    if (k > 1) text += fmt::format(", {} {}-grams", model->level(k).table.size(), k);
  }
  return print_out((c.json ? out.dump() : text) + "\n") ? 0 : 1;
}

Json score_json(const NgramScore& s) {
  return {{"sentences", s.sentences},
          {"words", s.words},
          {"unknown_words", s.unknown},
          {"log10_prob", s.log_prob},
          {"perplexity", s.perplexity()},
          {"perplexity_known_words", s.known_perplexity()},
          {"bits_per_token", s.bits_per_token()}};
}

int run_ngram_score(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> texts;
  WordOptions words;
  bool json = false, each = false;
  Options options("ngram score", "Compute log-probabilities and perplexity of texts, one sentence per line.",
                  "makar ngram score books.arpa test.txt");
  options.positional("MODEL", &path, "ARPA file");
  options.positional("PATHS", &texts, "files and folders of text; each line is a sentence");
  options.group("Words");
  declare_words(options, words);
  options.group("Output");
  options.add("--each", &each,
              "print a line for each sentence: log10 of its probability, perplexity, unknown words");
  options.add("--json", &json, "print JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(words); !s.ok()) return report(s.error()), 2;
  const auto paths = parse_data_paths(texts);
  if (!paths.ok()) return report(paths.error()), 2;
  const auto model = load_arpa(path);
  if (!model.ok()) return report(model.error());
  WordSplitter splitter(words);
  NgramScore total;
  const Status read = each_line(*paths, [&](std::string_view line) -> Status {
    const auto& sentence = splitter.split(line);
    if (sentence.empty()) return Done{};
    const NgramScore score = score_sentence(*model, sentence);
    total.add(score);
    if (!each) return Done{};
    const bool ok = print_out(
        json ? score_json(score).dump() + "\n"
             : fmt::format("{:.6f}\t{:.4f}\t{}\n", score.log_prob, score.perplexity(), score.unknown));
    return ok ? Status(Done{}) : error_of(Error::Kind::kIo, "standard output", "cannot write");
  });
  if (!read.ok()) return report(read.error());
  if (total.sentences == 0) return report(error_at(texts.front(), "there are no sentences to score"));
  if (json) {
    Json out = score_json(total);
    out["matched"] = total.matched;
    return print_out(out.dump() + "\n") ? 0 : 1;
  }
  if (each) return 0;
  std::string out = fmt::format(
      "sentences   {}\nwords       {} ({} unknown)\nlog10 prob  {:.4f}\nperplexity  {:.4f}\n"
      "            {:.4f} without unknown words\nbits/token  {:.4f}\nmatched     ",
      total.sentences, total.words, total.unknown, total.log_prob, total.perplexity(),
      total.known_perplexity(), total.bits_per_token());
  for (size_t k = total.matched.size(); k > 0; --k)
    out +=
        fmt::format("{}-grams {:.1f} %{}", k,
                    100.0 * static_cast<double>(total.matched[k - 1]) / static_cast<double>(total.tokens()),
                    k > 1 ? ", " : "\n");
  return print_out(out) ? 0 : 1;
}

int run_ngram_generate(const std::vector<std::string>& arguments) {
  std::string path, prompt;
  NgramSampling sampling;
  WordOptions words;
  int64_t seed = 0, samples = 1;
  Options options("ngram generate", "Sample sentences from an n-gram model.",
                  "makar ngram generate books.arpa --prompt 'It was' --samples 5");
  options.positional("MODEL", &path, "ARPA file");
  options.add("-p --prompt", &prompt, "words to continue", "TEXT");
  options.add("--samples", &samples, "number of sentences", "N");
  options.add("-n --n-predict --max-tokens", &sampling.max_words, "maximum number of words per sentence",
              "N");
  options.add("--temp --temperature", &sampling.temperature,
              "sampling temperature; 0 always takes the most likely word", "T");
  options.add("--top-k", &sampling.top_k, "sample from the K most likely words; 0 for all", "K");
  options.add("-s --seed", &seed, "random seed", "S");
  declare_words(options, words);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (!(sampling.temperature >= 0 && sampling.temperature <= 100))
    return report(error_at("--temp", "must be 0 to 100, got {}", sampling.temperature)), 2;
  if (sampling.max_words < 1 || sampling.max_words > 1000000)
    return report(error_at("-n", "must be 1 to 1000000, got {}", sampling.max_words)), 2;
  if (samples < 1) return report(error_at("--samples", "must be 1 or more, got {}", samples)), 2;
  if (sampling.top_k < 0) return report(error_at("--top-k", "must be 0 or more, got {}", sampling.top_k)), 2;
  if (seed < 0) return report(error_at("--seed", "must be 0 or more, got {}", seed)), 2;
  if (const Status s = check(words); !s.ok()) return report(s.error()), 2;
  const auto model = load_arpa(path);
  if (!model.ok()) return report(model.error());
  sampling.seed = static_cast<uint64_t>(seed);
  WordSplitter splitter(words);
  const auto prompt_words = splitter.split(prompt);
  NgramGenerator generator(*model);
  for (int64_t i = 0; i < samples; ++i) {
    const auto generated = generator.generate(prompt_words, sampling, static_cast<uint64_t>(i));
    if (!print_out(fmt::format("{}{}{}\n", prompt, prompt.empty() || generated.empty() ? "" : " ",
                               fmt::join(generated, " "))))
      return 1;
  }
  return 0;
}

}  // namespace

int run_ngram(const std::vector<std::string>& arguments) {
  constexpr Command kNgramCommands[] = {
      {"train", "count n-grams and write a smoothed model", run_ngram_train},
      {"score", "compute log-probabilities and perplexity of texts", run_ngram_score},
      {"generate", "sample sentences", run_ngram_generate},
  };
  return run_subcommand("ngram", "Train, score and sample n-gram language models in ARPA files.",
                        "makar ngram train books/ --order 3 -o books.arpa", kNgramCommands, arguments);
}

}  // namespace makar
