// makar data curate: cleans and filters datasets, and reports every drop. makar data language: the language
// classifier.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "curate/curate.h"
#include "data/datasets.h"
#include "lexical/arpa.h"
#include "lexical/corpus.h"
#include "text/tokenizer.h"
#include "train/recipe.h"

namespace makar {
namespace {

struct CurateCommand {
  std::vector<std::string> paths, datasets, evaluation;
  std::vector<std::string> min_fields;
  std::string language_model, ngram_model, report, name_tagger, toxicity, tokenizer, groups;
  bool representation = false;
  CurateOptions o;
  int64_t threads = 0;
  bool quiet = false, json = false;
};

void declare(Options& options, CurateCommand& c) {
  options
      .positional("PATHS", &c.paths,
                  "files and folders, or a recipe (FILE.yaml) and key=value; PATH,weight=X writes each "
                  "document X times on average")
      .required = false;
  options.add("-d --datasets", &c.datasets, "the same as PATHS; the key of recipes", "PATH");
  options.add("-o --output --out", &c.o.output, "JSONL file to write; the report goes to OUTPUT.report.md",
              "FILE");
  options.group("Clean");
  options.add("--clean", &c.o.clean, "cleaners in order: html, wiki, latex, licence, boilerplate, blanks",
              "NAME");
  options.add("--pii", &c.o.pii,
              "replace e-mail addresses, phone, card and account numbers and IP addresses by placeholders");
  options.add("--names", &c.o.names,
              "replace names of persons by [NAME], recognised by titles and common first names");
  options.add(
      "--name-tagger", &c.name_tagger,
      "with --names: also replace names that this tagger of `makar classify train --method hmm` finds",
      "FILE");
  options.group("Language");
  options.add("--language-model", &c.language_model, "file of `makar data language train`", "FILE");
  options.add("--languages", &c.o.languages, "languages to keep", "NAME");
  options.add("--language-score", &c.o.min_language_score, "minimum score of the language", "X");
  options.group("Quality");
  options.add("--gopher", &c.o.gopher, "apply Gopher's quality and repetition rules for English web text");
  options.add("--c4", &c.o.c4, "apply C4's rules, which keep only lines that are sentences");
  options.add("--min-words", &c.o.min_words, "minimum number of words per document", "N");
  options.add("--min-tokens", &c.o.min_tokens, "minimum number of tokens per document; needs --tokenizer",
              "N");
  options.add("--tokenizer", &c.tokenizer, "tokenizer file, or a folder that has one", "PATH");
  options.add("--min-field", &c.min_fields,
              "drop records whose field has a lower number, such as votes=3 or stars=10; records without the "
              "field stay",
              "FIELD=X");
  options.add("--ngram-model", &c.ngram_model, "ARPA file; the report has a histogram of perplexities",
              "FILE");
  options.add("--max-perplexity", &c.o.max_perplexity,
              "drop documents with a higher perplexity; 0: drop none", "X");
  options.add("--split", &c.o.ngram_words.split, "how to split texts for the n-gram model: space or words",
              "NAME");
  options.add("--lower", &c.o.ngram_words.lower, "convert to lower case for the n-gram model");
  options.add("--toxicity", &c.toxicity,
              "file of `makar classify train --method logistic` that scores toxicity", "FILE");
  options.add("--toxic-label", &c.o.toxic_label, "the classifier's label for toxic texts", "NAME");
  options.add("--max-toxicity", &c.o.max_toxicity, "drop documents with a line above this score", "X");
  options.group("Duplicates and contamination");
  options.add("--exact", &c.o.exact, "drop documents whose text equals that of an earlier one");
  options.add("--near", &c.o.near,
              "drop documents with at least this similarity to an earlier one (MinHash), such as 0.8; 0: off",
              "X");
  options.add("--evaluation", &c.evaluation, "drop documents that share n-grams with this evaluation data",
              "PATH");
  options.add("--contamination", &c.o.contamination, "length of these n-grams in words; 0 uses 13", "N");
  options.group("Output");
  options.add("--keep-fields", &c.o.keep_fields, "write the other fields of a record too, not only its text");
  options.add("--representation", &c.representation,
              "count documents that mention groups of people, before and after filtering");
  options.add("--groups", &c.groups,
              "with --representation: file of groups, one group, tab and word per line", "FILE");
  options.add("--seed", &c.o.seed, "seed for sampling documents by weight", "S");
  options.add("--report", &c.report, "file of the report, instead of OUTPUT.report.md", "FILE");
  options.add("-t --threads", &c.threads, "number of threads; 0 for one per core", "N");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the report as JSON");
}

// The paths of PATH,weight=X; appends the weights, 1 if not set, to `weights`.
Result<std::vector<DataPath>> parse_weighted_paths(const std::vector<std::string>& texts,
                                                   std::vector<double>& weights) {
  std::vector<DataPath> out;
  for (const std::string& text : texts) {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    out.push_back(spec.data()), weights.push_back(spec.weight > 0 ? spec.weight : 1);
  }
  return out;
}

Result<std::pair<std::string, double>> parse_field(const std::string& text) {
  const size_t equals = text.find('=');
  char* end = nullptr;
  const double value = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
  if (!end || equals == 0 || *end != '\0' || equals + 1 == text.size() || !std::isfinite(value))
    return error_at("--min-field", "expects FIELD=NUMBER, such as votes=3, got '{}'", text);
  return std::pair(text.substr(0, equals), value);
}

Result<CurateReport> curate_datasets(CurateCommand& c) {
  std::vector<std::string> all = c.paths;
  all.insert(all.end(), c.datasets.begin(), c.datasets.end());
  MAKAR_TRY(const auto paths, parse_weighted_paths(all, c.o.weights));
  std::vector<double> ignored_weights;
  MAKAR_TRY(c.o.evaluation, parse_weighted_paths(c.evaluation, ignored_weights));
  MAKAR_RETURN_IF_ERROR(check(c.o));
  std::optional<Tokenizer> tokenizer;
  if (!c.tokenizer.empty()) {
    MAKAR_TRY(auto loaded, Tokenizer::load(c.tokenizer));
    tokenizer.emplace(std::move(loaded));
    c.o.count_tokens = [&](const std::string& text) {
      const auto encoded = tokenizer->encode(text);
      return encoded.ok() ? encoded->ids.size() : 0;
    };
  }
  Representation groups;
  if (c.representation) {
    if (c.groups.empty()) {
      groups = Representation::built_in();
    } else {
      MAKAR_TRY(groups, Representation::read(c.groups));
    }
    c.o.groups = &groups;
  }
  std::optional<LanguageId> language;
  if (!c.language_model.empty()) {
    MAKAR_TRY(const Json json, read_json(c.language_model));
    MAKAR_TRY(auto loaded, LanguageId::from_json(json, c.language_model));
    language.emplace(std::move(loaded));
    c.o.language_id = &*language;
  }
  std::optional<NgramModel> ngrams;
  if (!c.ngram_model.empty()) {
    MAKAR_TRY(auto loaded, load_arpa(c.ngram_model));
    ngrams.emplace(std::move(loaded));
    c.o.ngrams = &*ngrams;
  }
  std::optional<HmmTagger> tagger;
  if (!c.name_tagger.empty()) {
    MAKAR_TRY(const Json json, read_json(c.name_tagger, {size_t{4} << 30, 16}));
    MAKAR_TRY(auto loaded, HmmTagger::from_json(json, c.name_tagger));
    tagger.emplace(std::move(loaded));
    c.o.name_tagger = &*tagger;
  }
  std::optional<TextClassifier> toxicity;
  if (!c.toxicity.empty()) {
    MAKAR_TRY(const Json json, read_json(c.toxicity, {size_t{4} << 30, 16}));
    MAKAR_TRY(auto loaded, TextClassifier::from_json(json, c.toxicity));
    toxicity.emplace(std::move(loaded));
    c.o.toxicity = &*toxicity;
    const auto& labels = toxicity->labels();
    if (std::find(labels.begin(), labels.end(), c.o.toxic_label) == labels.end())
      return error_at("--toxic-label", "{} has no label '{}'; it has: {}", c.toxicity, c.o.toxic_label,
                      fmt::join(labels, ", "));
  }
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(c.threads, 0, 256)));
  Progress progress(c.quiet || c.json);
  const auto begin = std::chrono::steady_clock::now();
  c.o.progress = [&](const char* stage, uint64_t done, uint64_t bytes) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    progress.show(stage, done, 0,
                  fmt::format("{:.1f} MB/s", static_cast<double>(bytes) / 1e6 / std::max(1e-3, seconds)));
  };
  return curate(paths, c.o, pool);
}

int finish(CurateCommand& c) {
  const auto curated = curate_datasets(c);
  if (!curated.ok()) return report(curated.error());
  if (const Status s = write_file(c.report.empty() ? c.o.output + ".report.md" : c.report, curated->text());
      !s.ok())
    return report(s.error());
  return print_out(c.json ? dump(curated->json()) + "\n" : curated->text()) ? 0 : 1;
}

int run_language_train(const std::vector<std::string>& arguments) {
  std::vector<std::string> samples;
  std::string output;
  Options options("data language train", "Train a language classifier on sample texts.",
                  "makar data language train en=english.txt de=german.txt -o languages.json");
  options.positional("SAMPLES", &samples, "LANGUAGE=PATH, at least two; a few hundred kB of text each");
  options.add("-o --output --out", &output, "file to write", "FILE").required = true;
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  std::map<std::string, std::string> texts;
  for (const std::string& sample : samples) {
    const size_t equals = sample.find('=');
    if (equals == std::string::npos || equals == 0)
      return report(error_at("SAMPLES", "expects LANGUAGE=PATH, got '{}'", sample)), 2;
    std::string& text = texts[sample.substr(0, equals)];
    constexpr size_t kMaxSampleBytes = size_t{64} << 20;
    const Status read = each_line({sample.substr(equals + 1)}, [&](std::string_view line) -> Status {
      if (text.size() < kMaxSampleBytes) (text += line) += '\n';
      return Done{};
    });
    if (!read.ok()) return report(read.error());
  }
  const auto classifier = LanguageId::train(texts);
  if (!classifier.ok()) return report(classifier.error());
  if (const Status s = write_file(output, classifier->json().dump() + "\n"); !s.ok())
    return report(s.error());
  return print_out(fmt::format("{}: {} languages\n", output, classifier->languages().size())) ? 0 : 1;
}

int run_language_detect(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> files;
  Options options("data language detect", "Print the language of each line and its score.",
                  "echo 'Guten Tag' | makar data language detect languages.json");
  options.positional("MODEL", &path, "file of `makar data language train`");
  options.add("-f --file", &files, "read lines from a file", "FILE");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto json = read_json(path);
  if (!json.ok()) return report(json.error());
  const auto model = LanguageId::from_json(*json, path);
  if (!model.ok()) return report(model.error());
  const Status status = each_line_batch(files, [&](const std::vector<std::string_view>& lines, size_t) {
    for (const std::string_view line : lines) {
      const auto answer = model->detect(line);
      if (!print_out(fmt::format("{}\t{:.4f}\n", answer.language, answer.probability))) return false;
    }
    return true;
  });
  return status.ok() ? 0 : report(status.error());
}

}  // namespace

int run_data_language(const std::vector<std::string>& arguments) {
  constexpr Command kLanguageCommands[] = {
      {"train", "train a classifier on sample texts", run_language_train},
      {"detect", "print the language of each line", run_language_detect},
  };
  return run_subcommand("data language", "Identify languages by character n-grams.",
                        "makar data language train en=english.txt de=german.txt -o languages.json",
                        kLanguageCommands, arguments);
}

namespace {

int run_curation(const std::string& command, const std::vector<std::string>& words) {
  CurateCommand c;
  Options options(command, "Clean and filter datasets; every drop is counted with its reason.",
                  "makar " + command + " web/ --clean html --gopher --exact --near 0.8 --pii -o clean.jsonl");
  declare(options, c);
  const auto arguments = expand_recipe(words, options);
  if (!arguments.ok()) return report(arguments.error()), 2;
  if (const auto code = parse_or_exit(options, *arguments)) return *code;
  if (c.o.output.empty()) return report(error_at("--output", "is needed: the JSONL file to write")), 2;
  if (c.paths.empty() && c.datasets.empty()) return report(error_at("PATHS", "expected files or folders")), 2;
  constexpr int64_t kDefaultContamination = 13;  // words, as in GPT-3
  if (!c.evaluation.empty() && c.o.contamination == 0) c.o.contamination = kDefaultContamination;
  if (c.o.contamination > 0 && c.evaluation.empty())
    return report(error_at("--contamination", "needs --evaluation")), 2;
  if (!c.o.languages.empty() && c.language_model.empty())
    return report(error_at("--languages", "needs --language-model")), 2;
  for (const std::string& text : c.min_fields) {
    auto field = parse_field(text);
    if (!field.ok()) return report(field.error()), 2;
    c.o.min_fields.push_back(std::move(*field));
  }
  if (!c.groups.empty() && !c.representation)
    return report(error_at("--groups", "needs --representation")), 2;
  if ((c.o.min_tokens > 0) != !c.tokenizer.empty())
    return report(error_at(c.tokenizer.empty() ? "--min-tokens" : "--tokenizer", "needs {}",
                           c.tokenizer.empty() ? "--tokenizer" : "--min-tokens")),
           2;
  if (!c.name_tagger.empty() && !c.o.names) return report(error_at("--name-tagger", "needs --names")), 2;
  if (c.o.max_perplexity > 0 && c.ngram_model.empty())
    return report(error_at("--max-perplexity", "needs --ngram-model")), 2;
  for (const Status& s : {check(c.o), check(c.o.ngram_words)})
    if (!s.ok()) return report(s.error()), 2;
  return finish(c);
}

}  // namespace

int run_data_curate(const std::vector<std::string>& arguments) {
  return run_curation("data curate", arguments);
}
int run_data_filter(const std::vector<std::string>& arguments) {
  return run_curation("data filter", arguments);
}

// makar data dedup: the part of curation that finds duplicates.
int run_data_dedup(const std::vector<std::string>& arguments) {
  bool text_only = false;
  CurateCommand c;
  c.o.exact = true, c.o.near = 0.8;
  Options options("data dedup", "Drop duplicates and near-duplicates of earlier documents.",
                  "makar data dedup web/ --near 0.8 -o unique.jsonl");
  options.positional("PATHS", &c.paths, "files and folders");
  options
      .add("-o --output --out", &c.o.output, "JSONL file to write; the report goes to OUTPUT.report.md",
           "FILE")
      .required = true;
  options.add("--near", &c.o.near,
              "drop documents with at least this similarity to an earlier one (MinHash); 0: only equal ones",
              "X");
  options.add("--text-only", &text_only, "write only the text of each record, without its other fields");
  options.add("--report", &c.report, "file of the report, instead of OUTPUT.report.md", "FILE");
  options.add("-t --threads", &c.threads, "number of threads; 0 for one per core", "N");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the report as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  c.o.keep_fields = !text_only;
  if (const Status s = check(c.o); !s.ok()) return report(s.error()), 2;
  return finish(c);
}

}  // namespace makar
