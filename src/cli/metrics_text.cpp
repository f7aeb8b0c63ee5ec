// Metrics of texts against references, and of texts alone.
#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "metrics/diversity.h"
#include "metrics/error_rate.h"
#include "metrics/meteor.h"
#include "metrics/rouge.h"
#include "metrics/squad.h"
#include "metrics/ter.h"
#include "text/wordnet.h"

namespace makar {
namespace {

using References = std::vector<std::vector<std::string>>;  // by item

// Every file adds references to each item; an item of a list adds several.
Result<References> read_references(const std::vector<std::string>& files) {
  References out;
  for (const std::string& file : files) {
    MAKAR_TRY(const auto cells, read_cells(file));
    if (out.empty()) out.resize(cells.size());
    MAKAR_RETURN_IF_ERROR(same_count(out.size(), files[0], cells.size(), file));
    for (size_t i = 0; i < cells.size(); ++i) out[i].insert(out[i].end(), cells[i].begin(), cells[i].end());
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].empty()) return error_at(files[0], "item {} has no reference", i + 1);
  return out;
}

// The systems' segments, one system after the other.
Result<Segments> read_segments(const std::vector<std::string>& systems, const References& references,
                               const std::string& reference_file) {
  Segments out;
  for (const std::string& file : systems) {
    MAKAR_TRY(auto values, read_values(file));
    MAKAR_RETURN_IF_ERROR(same_count(references.size(), reference_file, values.size(), file));
    for (size_t i = 0; i < values.size(); ++i) out.push_back({std::move(values[i]), references[i]});
  }
  return out;
}

using TextMetric = std::function<Result<Evaluation>(const Segments&)>;

struct TextOptions {
  std::string tokenize, smooth = "exp", mode = "rouge_score", separator, wordnet = WordNet::kFolder;
  double smooth_value = -1, beta = 2, alpha = 0.9, meteor_beta = 3, gamma = 0.5;
  bool lowercase = false, effective = false, whitespace = false, eps = false, normalized = false;
  bool no_punctuation = false, asian = false, case_sensitive = false, stem = false, no_synonyms = false;
  int64_t order = 4, characters = 6, words = 0, skip = 4;
  double weight = 1.2;

  void declare(const std::string& name, Options& options);
  Result<TextMetric> metric(const std::string& name, bool each);

 private:
  Result<WordSplit> split() const { return parse_word_split(tokenize, "--tokenize"); }
};

const char* const kSplitHelp = "how lines become words: 13a, intl, char, zh or none (split at white space)";

void TextOptions::declare(const std::string& name, Options& options) {
  options.group("Metric");
  tokenize = name == "meteor" ? "none" : "13a";
  if (name == "bleu") {
    options.add("--tokenize", &tokenize, kSplitHelp, "NAME");
    options.add("--smooth-method --smooth", &smooth,
                "smoothing of n-gram orders without matches: none, floor, add-k or exp", "NAME");
    options.add("--smooth-value", &smooth_value, "value of floor (0.1 if not set) or add-k (1 if not set)",
                "X");
    options.add("--max-ngram-order", &order, "the longest n-gram", "N");
    options.add("--effective-order", &effective,
                "ignore orders that exceed the length of a sentence; on with --each");
  }
  if (name == "chrf" || name == "chrf++") {
    words = name == "chrf++" ? 2 : 0;
    options.add("--char-order --chrf-char-order", &characters, "the longest n-gram of characters", "N");
    options.add("--word-order --chrf-word-order", &words, "the longest n-gram of words; 2 is chrF++", "N");
    options.add("--beta --chrf-beta", &beta, "weight of recall", "X");
    options.add("--whitespace --chrf-whitespace", &whitespace, "count white space as characters");
    options.add("--eps-smoothing --chrf-eps-smoothing", &eps,
                "average the F of every order, as chrF++.py does");
  }
  if (name == "ter") {
    options.add("--normalized --ter-normalized", &normalized, "separate punctuation, as tercom -N does");
    options.add("--no-punct --ter-no-punct", &no_punctuation, "remove punctuation");
    options.add("--asian-support --ter-asian-support", &asian, "apply these options to Asian scripts too");
    options.add("--case-sensitive --ter-case-sensitive", &case_sensitive, "distinguish upper and lower case");
  }
  if (name == "bleu" || name == "chrf" || name == "chrf++" || name == "wer" || name == "cer")
    options.add("--lowercase --lc", &lowercase, "compare in lower case");
  if (name.starts_with("rouge")) {
    options.add("--mode", &mode, "rouge_score, or rouge-1.5.5 (pools the references; ROUGE-L by sentence)",
                "NAME");
    options.add("--stem --use-stemmer", &stem, "compare stems of words with more than three letters");
    options.add("--weight", &weight, "ROUGE-W: a run of k words counts k to this power", "X");
    options.add("--skip", &skip,
                "ROUGE-S and SU: maximum number of words between the two words of a pair; -1 for any number",
                "N");
    options.add("--separator", &separator,
                "text between the sentences of one summary, for Lsum (default line break)", "TEXT");
  }
  if (name == "meteor") {
    options.add("--tokenize", &tokenize, kSplitHelp, "NAME");
    options.add("--alpha", &alpha, "weight of precision against recall", "X");
    options.add("--beta", &meteor_beta, "shape of the penalty for fragments", "X");
    options.add("--gamma", &gamma, "weight of the penalty for fragments", "X");
    options.add("--wordnet", &wordnet, "folder of the WordNet database", "DIR");
    options.add("--no-synonyms", &no_synonyms, "match words and stems only; needs no WordNet");
  }
}

Result<TextMetric> TextOptions::metric(const std::string& name, bool each) {
  const auto between = [](const char* flag, int64_t value, int64_t low, int64_t high) -> Status {
    if (value < low || value > high) return error_at(flag, "must be {} to {}, got {}", low, high, value);
    return Done{};
  };
  if (name == "bleu") {
    BleuOptions o;
    MAKAR_TRY(o.words, split());
    MAKAR_TRY(o.smoothing, parse_smoothing(smooth, "--smooth-method"));
    MAKAR_RETURN_IF_ERROR(between("--max-ngram-order", order, 1, 100));
    o.smooth_value = smooth_value, o.order = order, o.lowercase = lowercase,
    o.effective_order = effective || each;
    return TextMetric([o](const Segments& s) { return evaluate_bleu(s, o); });
  }
  if (name == "chrf" || name == "chrf++") {
    MAKAR_RETURN_IF_ERROR(between("--char-order", characters, 1, 100));
    MAKAR_RETURN_IF_ERROR(between("--word-order", words, 0, 100));
    const ChrfOptions o{characters, words, beta, lowercase, whitespace, eps};
    return TextMetric([o](const Segments& s) { return evaluate_chrf(s, o); });
  }
  if (name == "ter") {
    const TerText o{normalized, no_punctuation, asian, case_sensitive};
    return TextMetric([o](const Segments& s) { return evaluate_ter(s, o); });
  }
  if (name == "wer" || name == "cer")
    return TextMetric([unit = name == "wer" ? ErrorUnit::kWords : ErrorUnit::kCharacters,
                       lower = lowercase](const Segments& s) { return evaluate_error_rate(s, unit, lower); });
  if (name == "eed") return TextMetric([](const Segments& s) { return evaluate_eed(s); });
  if (name == "meteor") {
    MeteorOptions o{alpha, meteor_beta, gamma};
    MAKAR_TRY(o.words, split());
    if (!no_synonyms) {
      const auto database = WordNet::open(wordnet);
      if (!database.ok())
        return error_of(database.error().kind, database.error().place,
                        "{} with --wordnet; --no-synonyms needs none", database.error().message);
      o.synonyms = [words = *database](const std::string& word) { return words->synonyms(word); };
    }
    return TextMetric([o](const Segments& s) { return evaluate_meteor(s, o); });
  }
  if (name.starts_with("rouge")) {
    RougeOptions o;
    MAKAR_TRY(o.mode, parse_rouge_mode(mode, "--mode"));
    o.stem = stem, o.weight = weight, o.skip = skip;
    if (!(weight >= 1 && weight <= 10)) return error_at("--weight", "must be 1 to 10, got {}", weight);
    if (!separator.empty()) o.separator = separator;
    std::vector<std::string> kinds = {name};
    if (name == "rouge") kinds = {"rougeL", "rouge1", "rouge2", "rougeLsum", "rougeW", "rougeS", "rougeSU"};
    return TextMetric([o, kinds](const Segments& s) { return evaluate_rouge(s, kinds, o); });
  }
  return TextMetric([exact = name == "exact-match"](const Segments& s) { return evaluate_squad(s, exact); });
}

}  // namespace

int run_text_metric(const std::string& name, const std::vector<std::string>& arguments) {
  TextOptions text;
  MetricFiles files;
  MetricOutput output;
  Options options("metrics " + name, "Compare texts with references, line by line.",
                  fmt::format("makar metrics {} --hyp output.txt --ref reference.txt", name));
  files.declare(options,
                "texts to score: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems",
                "references, in the same order; repeat for several per text");
  text.declare(name, options);
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  const auto metric = text.metric(name, output.each);
  if (!metric.ok()) return report(metric.error()), metric.error().kind == Error::Kind::kNotFound ? 1 : 2;
  const auto references = read_references(files.ref);
  if (!references.ok()) return report(references.error());
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        MAKAR_TRY(const Segments segments, read_segments(systems, *references, files.ref[0]));
        return (*metric)(segments);
      },
      output);
}

int run_reference_free_metric(const std::string& name, const std::vector<std::string>& arguments) {
  MetricFiles files;
  MetricOutput output;
  std::string tokenize = "13a";
  int64_t n = name == "distinct" ? 2 : 4, window = 50;
  Options options("metrics " + name, "Measure how varied texts are, one text per line.",
                  fmt::format("makar metrics {} --hyp output.txt", name));
  files.declare(options,
                "the texts: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems", "");
  options.group("Metric");
  options.add("--tokenize", &tokenize, kSplitHelp, "NAME");
  if (name != "diversity")
    options.add("-n --ngram", &n, "length of the n-grams; the maximum for self-bleu", "N");
  if (name == "diversity") options.add("--window", &window, "words in a window of MATTR", "N");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  const auto split = parse_word_split(tokenize, "--tokenize");
  if (!split.ok()) return report(split.error()), 2;
  if (n < 1 || n > 100) return report(error_at("--ngram", "must be 1 to 100, got {}", n)), 2;
  if (window < 1) return report(error_at("--window", "must be 1 or more, got {}", window)), 2;
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        std::vector<std::string> texts;
        for (const std::string& file : systems) {
          MAKAR_TRY(const auto values, read_values(file));
          if (values.empty()) return error_at(file, "has no texts");
          texts.insert(texts.end(), values.begin(), values.end());
        }
        if (name == "distinct") return evaluate_distinct(texts, n, *split);
        if (name == "repetition") return evaluate_repetition(texts, n, *split);
        if (name == "diversity") return evaluate_lexical_diversity(texts, window, *split);
        if (texts.size() < 2)
          return error_at(systems[0], "self-bleu compares texts with each other; it needs at least two");
        BleuOptions o;
        o.words = *split, o.order = n, o.effective_order = true;
        return evaluate_self_bleu(texts, o);
      },
      output);
}

}  // namespace makar
