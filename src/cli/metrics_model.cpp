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
  const auto finite = [](const std::vector<double>& n, size_t from) {
    for (size_t i = from; i < n.size(); ++i)
      if (!std::isfinite(n[i])) return false;
    return true;
  };
  if (const auto n = numbers(text); n.size() == 3 && finite(n, 0)) return BertScore{n[0], n[1], n[2]};
  MAKAR_TRY(const auto lines, read_cells(text));
  for (const Cell& line : lines) {
    const size_t comma = line[0].find(',');
    if (comma == std::string::npos || line[0].substr(0, comma) != std::to_string(layer)) continue;
    const auto n = numbers(line[0].substr(comma + 1));
    if (n.size() == 3 && finite(n, 0)) return BertScore{n[0], n[1], n[2]};
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

}  // namespace

int run_bert_score(const std::string& name, const std::vector<std::string>& arguments) {
  ModelOptions model;
  MetricFiles files;
  MetricOutput output;
  int64_t layer = -1, max_tokens = 512;
  bool idf = false;
  std::string baseline;
  Options options("metrics " + name,
                  "BERTScore: greedy matching of token vectors of an encoder (Zhang et al., 2020).",
                  "makar metrics bertscore -m MODEL --hyp output.txt --ref reference.txt");
  model.declare(options);
  declare_device(options, model.device);
  files.declare(options,
                "texts to score: FILE with one per line, or FILE:COLUMN of a table; repeated: more systems",
                "references, in the same order; lists of a table column are several references");
  options.group("Metric");
  options.add("--layer --num-layers", &layer,
              "the layer of the vectors; 0 are the embeddings, -1 the last layer", "N");
  options.add("--idf", &idf, "weight tokens by their inverse frequency in the references");
  options.add("--baseline", &baseline,
              "rescale: P,R,F of unrelated texts, or a file with LAYER,P,R,F per line", "LIST");
  options.add("--max-tokens", &max_tokens, "maximum number of tokens per text", "N");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  if (max_tokens < 1 || max_tokens > 8192)
    return report(error_at("--max-tokens", "must be 1 to 8192, got {}", max_tokens)), 2;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  const auto encoder = TokenEncoder::make(*language, device, layer);
  if (!encoder.ok()) return report(encoder.error()), 2;
  BertScore base;
  if (!baseline.empty()) {
    const auto read = read_baseline(baseline, encoder->layer());
    if (!read.ok()) return report(read.error());
    base = *read;
  }
  const auto references = read_cells(files.ref[0]);
  if (!references.ok()) return report(references.error());
  const BertScorer scorer(*language, *encoder, static_cast<size_t>(max_tokens));
  std::optional<InverseFrequencies> frequencies;
  if (idf) {
    std::vector<std::vector<int64_t>> ids;
    for (const Cell& cell : *references)
      for (const std::string& text : cell) {
        const auto t = scorer.tokens(text);
        if (!t.ok()) return report(t.error());
        ids.push_back(t->ids);
      }
    frequencies.emplace(ids);
  }
  const std::string signature =
      fmt::format("model:{}|layer:{}|idf:{}|rescaled:{}", language->spec().family, encoder->layer(),
                  idf ? "yes" : "no", baseline.empty() ? "no" : "yes");
  std::unordered_map<std::string, std::vector<BertScore>> scored;  // by system: each text is run once
  return report_metric(
      files.hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        std::vector<BertScore> all;
        for (const std::string& file : systems) {
          if (!scored.contains(file)) {
            MAKAR_TRY(const auto hyp, read_values(file));
            MAKAR_CHECK_OK(same_count(references->size(), files.ref[0], hyp.size(), file));
            MAKAR_TRY(auto made, score_pairs(scorer, hyp, *references, frequencies ? &*frequencies : nullptr,
                                             base, output.json));
            scored[file] = std::move(made);
          }
          all.insert(all.end(), scored[file].begin(), scored[file].end());
        }
        return evaluate_bert_scores(all, signature);
      },
      output);
}

int run_perplexity_metric(const std::string& name, const std::vector<std::string>& arguments) {
  ModelOptions model;
  EngineFlags flags;
  MetricOutput output;
  std::string source, prompts;
  bool whole = false;
  int64_t stride = 0;
  Options options(
      "metrics " + name,
      "Perplexity, bits per byte and token accuracy of texts; the score is the perplexity. Texts of "
      "an encoder-decoder end with its end token, as in training.",
      "makar metrics perplexity -m MODEL --text lines.txt");
  model.declare(options);
  declare_device(options, model.device);
  options.group("Input");
  options
      .add("--text --ref --hyp", &source, "texts: FILE with one per line, or FILE:COLUMN of a table", "FILE")
      .required = true;
  options.add("--prompts --source", &prompts,
              "what precedes each text and is not scored; for an encoder-decoder, what its encoder reads",
              "FILE");
  options.add("--whole", &whole, "join the lines: the file is one text");
  flags.declare(options);
  options.group("Metric");
  options.add("--stride", &stride,
              "texts longer than the context: tokens between windows; 0 for half of the context", "N");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  if (stride < 0) return report(error_at("--stride", "must be 0 or more, got {}", stride)), 2;
  if (whole && !prompts.empty()) return report(error_at("--whole", "excludes --prompts")), 2;
  auto texts = read_values(source);
  if (!texts.ok()) return report(texts.error());
  const auto before = prompts.empty() ? std::vector<std::string>(texts->size()) : read_values(prompts);
  if (!before.ok()) return report(before.error());
  if (const Status same = same_count(texts->size(), source, before->size(), prompts); !same.ok())
    return report(same.error());
  if (whole) texts = std::vector<std::string>{fmt::format("{}\n", fmt::join(*texts, "\n"))};
  if (const auto budget = flags.budget(); !budget.ok()) return report(budget.error()), 2;
  const auto opened = open_on_device(model, flags);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  if (!language->spec().decoder)
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "needs a causal or sequence-to-sequence model, this is a {}",
                           language->spec().architecture));
  if (language->spec().encoder && prompts.empty())
    return report(error_at("--source", "is required: what the encoder of a {} reads for each text",
                           language->spec().architecture)),
           2;
  const auto engine_options = flags.resolve(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language->model(), device, *engine_options);
  std::vector<Statistics> units;  // log-probability, tokens, bytes, tokens that are the most probable
  int64_t empty = 0;
  {
    Progress progress(output.json);
    for (size_t i = 0; i < texts->size(); ++i) {
      progress.show("scoring", i, texts->size());
      const auto encoded = encode_scored(*language, (*before)[i], (*texts)[i]);
      if (!encoded.ok() && split_words((*texts)[i]).empty()) {
        ++empty;
        continue;
      }
      if (!encoded.ok()) return report(encoded.error().in(segment_place(i)));
      double best = 0;
      LoglikelihoodOptions scoring;
      scoring.stride = stride;
      scoring.on_token = [&](size_t, int64_t, const Logprobs& one) {
        best += one.rank == 0 ? 1 : 0;
        return true;
      };
      const auto totals = loglikelihood(engine, *language, std::span(&*encoded, 1), scoring).front();
      if (!totals.ok()) return report(totals.error().in(segment_place(i)));
      units.push_back({totals->logprob, static_cast<double>(totals->tokens),
                       static_cast<double>((*texts)[i].size()), best});
    }
  }
  if (units.empty()) return report(error_at(source, "has no text to score"));
  const Statistics sums = sum_of(units);
  Evaluation e = evaluation_of_sums(
      "perplexity", fmt::format("model:{}|base:e|texts:{}", language->spec().family, units.size()), units,
      [](std::span<const double> s) { return std::exp(-s[0] / s[1]); });
  e.lower_is_better = true;
  e.details = {{"bits_per_byte", -sums[0] / std::log(2.0) / sums[2]},
               {"token_accuracy", sums[3] / sums[1]},
               {"logprob", sums[0]},
               {"tokens", static_cast<int64_t>(sums[1])},
               {"bytes", static_cast<int64_t>(sums[2])},
               {"empty_texts", empty}};
  return report_metric(
      {source}, [&](const std::vector<std::string>&) -> Result<Evaluation> { return e; }, output);
}

}  // namespace makar
