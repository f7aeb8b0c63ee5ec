// Metrics that run a model: BERTScore, and perplexity with bits per byte and token accuracy.
#include <charconv>
#include <cmath>

#include "base/progress.h"
#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "llm/loglikelihood.h"
#include "llm/token_vectors.h"
#include "metrics/words.h"

namespace makar {
namespace {

// "P,R,F", or a file of bert_score's baselines: LAYER,P,R,F per line.
Result<BertScore> read_baseline(const std::string& text, int64_t layer) {
  const auto numbers = [](const std::string& line) {
    std::vector<double> out;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find(',', at), line.size());
      double number = 0;
      const auto [stop, status] = std::from_chars(line.data() + at, line.data() + end, number);
      if (status != std::errc() || stop != line.data() + end || !(number < 1)) number = NAN;
      out.push_back(number);
      at = end + 1;
    }
    return out;
  };
  const auto finite = [](const std::vector<double>& values) {
    for (const double value : values)
      if (!std::isfinite(value)) return false;
    return true;
  };
  if (const auto n = numbers(text); n.size() == 3 && finite(n)) return BertScore{n[0], n[1], n[2]};
  MAKAR_TRY(const auto lines, read_cells(text));
  for (const Cell& line : lines) {
    const size_t comma = line[0].find(',');
    if (comma == std::string::npos || line[0].substr(0, comma) != std::to_string(layer)) continue;
    const auto n = numbers(line[0].substr(comma + 1));
    if (n.size() == 3 && finite(n)) return BertScore{n[0], n[1], n[2]};
  }
  return error_at(text, "expected P,R,F below 1, or a file with a line {},P,R,F", layer);
}

class BertScorer {
 public:
  BertScorer(const LanguageModel& language, const TokenEncoder& encoder, size_t max_tokens)
      : language_(language), encoder_(encoder), max_tokens_(max_tokens) {}

  Result<TokenizedText> tokens(const std::string& text) const {
    return tokenize_for_vectors(language_, text, max_tokens_);
  }
  Result<TokenVectors> vectors(const std::string& text, const InverseFrequencies* idf) const {
    MAKAR_TRY(const TokenizedText t, tokens(text));
    TokenVectors out = encoder_(t);
    for (size_t i = 0; idf && i < out.weights.size(); ++i) out.weights[i] = (*idf)(t.ids[i]);
    return out;
  }

 private:
  const LanguageModel& language_;
  const TokenEncoder& encoder_;
  size_t max_tokens_;
};

Result<std::vector<BertScore>> score_pairs(const BertScorer& scorer, const std::vector<std::string>& hyp,
                                           const std::vector<Cell>& references, const InverseFrequencies* idf,
                                           const BertScore& baseline, bool quiet) {
  Progress progress(quiet);
  std::vector<BertScore> out;
  for (size_t i = 0; i < hyp.size(); ++i) {
    progress.show("scoring", i, hyp.size());
    MAKAR_TRY(const TokenVectors h, scorer.vectors(hyp[i], idf));
    BertScore best;
    for (size_t r = 0; r < references[i].size(); ++r) {
      MAKAR_TRY(const TokenVectors v, scorer.vectors(references[i][r], idf));
      const BertScore one = bert_score(h, v, baseline);
      if (r == 0 || one.f1 > best.f1) best = one;
    }
    out.push_back(best);
  }
  return out;
}

struct BertScoreCommand {
  ModelOptions model;
  MetricFiles files;
  MetricOutput output;
  int64_t layer = -1, max_tokens = 512;
  bool idf = false;
  std::string baseline;
};

void declare(Options& options, BertScoreCommand& c) {
  c.model.declare(options);
  declare_device(options, c.model.device);
  c.files.declare(
      options, "texts to score: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems",
      "references, in the same order; lists of a table column are several references");
  options.group("Metric");
  options.add("--layer --num-layers", &c.layer,
              "the layer of the vectors; 0 are the embeddings, -1 the last layer", "N");
  options.add("--idf", &c.idf, "weight tokens by their inverse document frequency in the references");
  options.add("--baseline", &c.baseline,
              "rescale: P,R,F of unrelated texts, or a file with LAYER,P,R,F per line", "LIST");
  options.add("--max-tokens", &c.max_tokens, "maximum number of tokens per text", "N");
}

Result<InverseFrequencies> inverse_frequencies(const BertScorer& scorer,
                                               const std::vector<Cell>& references) {
  std::vector<std::vector<int64_t>> ids;
  for (const Cell& cell : references)
    for (const std::string& text : cell) {
      MAKAR_TRY(const TokenizedText t, scorer.tokens(text));
      ids.push_back(t.ids);
    }
  return InverseFrequencies(ids);
}

struct PerplexityCommand {
  ModelOptions model;
  EngineFlags flags;
  MetricOutput output;
  std::string source, prompts;
  bool join_lines = false;
  int64_t stride = 0;
};

void declare(Options& options, PerplexityCommand& c) {
  c.model.declare(options);
  declare_device(options, c.model.device);
  options.group("Input");
  options
      .add("--text --ref --hyp", &c.source, "texts: FILE with one per line, or FILE:COLUMN of a table",
           "FILE")
      .required = true;
  options.add("--prompts --source", &c.prompts,
              "what precedes each text and is not scored; for an encoder-decoder, what its encoder reads",
              "FILE");
  options.add("--whole", &c.join_lines, "join the lines: the file is one text");
  c.flags.declare(options);
  options.group("Metric");
  options.add("--stride", &c.stride,
              "texts longer than the context: tokens between windows; 0 for half of the context", "N");
}

struct TextsToScore {
  std::vector<std::string> texts, prompts;
};

Result<TextsToScore> read_texts(const PerplexityCommand& c) {
  TextsToScore out;
  MAKAR_TRY(out.texts, read_values(c.source));
  if (c.prompts.empty()) {
    out.prompts.resize(out.texts.size());
  } else {
    MAKAR_TRY(out.prompts, read_values(c.prompts));
  }
  MAKAR_RETURN_IF_ERROR(same_count(out.texts.size(), c.source, out.prompts.size(), c.prompts));
  if (c.join_lines) out.texts = {fmt::format("{}\n", fmt::join(out.texts, "\n"))};
  return out;
}

Status check_model(const PerplexityCommand& c, const LanguageModel& language) {
  const ModelSpec& spec = language.spec();
  if (!language.has_tokenizer()) return error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer");
  if (!spec.decoder)
    return error_of(Error::Kind::kUnsupported, c.model.model,
                    "needs a causal or sequence-to-sequence model, this is a {}", spec.architecture);
  if (spec.encoder && c.prompts.empty())
    return error_at("--source", "is required: what the encoder of a {} reads for each text",
                    spec.architecture);
  return Done{};
}

// Per text: log-probability, tokens, bytes, and tokens that were the most probable ones. Adds the number of
// blank texts to `blank_texts`.
Result<std::vector<Statistics>> score_texts(const PerplexityCommand& c, const TextsToScore& in,
                                            const LanguageModel& language, Engine& engine,
                                            int64_t& blank_texts) {
  Progress progress(c.output.json);
  std::vector<Statistics> out;
  for (size_t i = 0; i < in.texts.size(); ++i) {
    progress.show("scoring", i, in.texts.size());
    const auto encoded = encode_scored(language, in.prompts[i], in.texts[i]);
    if (!encoded.ok() && split_words(in.texts[i]).empty()) {
      ++blank_texts;
      continue;
    }
    if (!encoded.ok()) return encoded.error().in(segment_place(i));
    double top_tokens = 0;
    LoglikelihoodOptions scoring;
    scoring.stride = c.stride;
    scoring.on_token = [&](size_t, int64_t, const Logprobs& one) {
      top_tokens += one.rank == 0 ? 1 : 0;
      return true;
    };
    const auto totals = loglikelihood(engine, language, std::span(&*encoded, 1), scoring).front();
    if (!totals.ok()) return totals.error().in(segment_place(i));
    out.push_back({totals->logprob, static_cast<double>(totals->tokens),
                   static_cast<double>(in.texts[i].size()), top_tokens});
  }
  if (out.empty()) return error_at(c.source, "has no text to score");
  return out;
}

}  // namespace

int run_bert_score(const std::string& name, const std::vector<std::string>& arguments) {
  BertScoreCommand c;
  Options options("metrics " + name,
                  "BERTScore: greedy matching of token vectors of an encoder (Zhang et al., 2020).",
                  "makar metrics bertscore -m MODEL --hyp output.txt --ref reference.txt");
  declare(options, c);
  if (const auto code = parse_metric(options, c.output, arguments)) return *code;
  if (c.max_tokens < 1 || c.max_tokens > 8192)
    return report(error_at("--max-tokens", "must be 1 to 8192, got {}", c.max_tokens)), 2;
  const auto opened = open_on_device(c.model);
  if (!opened.ok()) return report(opened.error());
  const LanguageModel& language = opened->language;
  if (!language.has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer"));
  const auto encoder = TokenEncoder::make(language, *opened->device, c.layer);
  if (!encoder.ok()) return report(encoder.error()), 2;
  BertScore base;
  if (!c.baseline.empty()) {
    const auto read = read_baseline(c.baseline, encoder->layer());
    if (!read.ok()) return report(read.error());
    base = *read;
  }
  const auto references = read_cells(c.files.ref[0]);
  if (!references.ok()) return report(references.error());
  const BertScorer scorer(language, *encoder, static_cast<size_t>(c.max_tokens));
  std::optional<InverseFrequencies> frequencies;
  if (c.idf) {
    auto found = inverse_frequencies(scorer, *references);
    if (!found.ok()) return report(found.error());
    frequencies.emplace(std::move(*found));
  }
  const std::string signature =
      fmt::format("model:{}|layer:{}|idf:{}|rescaled:{}", language.spec().family, encoder->layer(),
                  c.idf ? "yes" : "no", c.baseline.empty() ? "no" : "yes");
  std::unordered_map<std::string, std::vector<BertScore>> scores_by_file;  // each text runs once
  return report_metric(
      c.files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        std::vector<BertScore> all;
        for (const std::string& file : systems) {
          if (!scores_by_file.contains(file)) {
            MAKAR_TRY(const auto hyp, read_values(file));
            MAKAR_RETURN_IF_ERROR(same_count(references->size(), c.files.ref[0], hyp.size(), file));
            MAKAR_TRY(scores_by_file[file],
                      score_pairs(scorer, hyp, *references, frequencies ? &*frequencies : nullptr, base,
                                  c.output.json));
          }
          all.insert(all.end(), scores_by_file[file].begin(), scores_by_file[file].end());
        }
        return evaluate_bert_scores(all, signature);
      },
      c.output);
}

int run_perplexity_metric(const std::string& name, const std::vector<std::string>& arguments) {
  PerplexityCommand c;
  Options options(
      "metrics " + name,
      "Perplexity, bits per byte and token accuracy of texts; the score is the perplexity. Texts of "
      "an encoder-decoder end with its end token, as in training.",
      "makar metrics perplexity -m MODEL --text lines.txt");
  declare(options, c);
  if (const auto code = parse_metric(options, c.output, arguments)) return *code;
  if (c.stride < 0) return report(error_at("--stride", "must be 0 or more, got {}", c.stride)), 2;
  if (c.join_lines && !c.prompts.empty())
    return report(error_at("--whole", "cannot be combined with --prompts")), 2;
  const auto texts = read_texts(c);
  if (!texts.ok()) return report(texts.error());
  if (const auto budget = c.flags.budget(); !budget.ok()) return report(budget.error()), 2;
  const auto opened = open_on_device(c.model, c.flags);
  if (!opened.ok()) return report(opened.error());
  const LanguageModel& language = opened->language;
  if (const Status fits = check_model(c, language); !fits.ok())
    return report(fits.error()), fits.error().place == "--source" ? 2 : 1;
  const auto engine_options = c.flags.resolve(language.model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language.model(), *opened->device, *engine_options);
  int64_t blank_texts = 0;
  const auto units = score_texts(c, *texts, language, engine, blank_texts);
  if (!units.ok()) return report(units.error());
  const Statistics sums = sum_of(*units);
  Evaluation e = evaluation_of_sums(
      "perplexity", fmt::format("model:{}|base:e|texts:{}", language.spec().family, units->size()), *units,
      [](std::span<const double> s) { return std::exp(-s[0] / s[1]); });
  e.lower_is_better = true;
  e.details = {{"bits_per_byte", -sums[0] / std::log(2.0) / sums[2]},
               {"token_accuracy", sums[3] / sums[1]},
               {"logprob", sums[0]},
               {"tokens", static_cast<int64_t>(sums[1])},
               {"bytes", static_cast<int64_t>(sums[2])},
               {"empty_texts", blank_texts}};
  return report_metric(
      {c.source}, [&](const std::vector<std::string>&) -> Result<Evaluation> { return e; }, c.output);
}

}  // namespace makar
