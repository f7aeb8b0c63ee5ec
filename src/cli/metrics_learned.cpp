// makar metrics bleurt: a learned metric on vectors of an encoder; `makar metrics bleurt train` trains its
// head.
#include <fmt/format.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/token_vectors.h"
#include "metrics/agreement.h"
#include "metrics/learned_head.h"

namespace makar {
namespace {

struct LearnedCommand {
  ModelOptions model;
  int64_t layer = -1, max_tokens = 512;
  void declare(Options& options) {
    model.declare(options);
    declare_device(options, model.device);
  }
  void declare_vectors(Options& options) {
    options.add("--layer", &layer, "the layer of the vectors; 0 are the embeddings, -1 the last layer", "N");
    options.add("--max-tokens", &max_tokens, "maximum number of tokens per text", "N");
  }
};

// An open encoder and the features of pairs.
class PairEncoder {
 public:
  PairEncoder(const LanguageModel& language, const TokenEncoder& encoder, size_t max_tokens)
      : language_(language), encoder_(encoder), max_tokens_(max_tokens) {}
  std::string name() const { return fmt::format("{} layer {}", language_.spec().family, encoder_.layer()); }
  Result<FeatureRows> rows(const std::vector<std::string>& hyp, const std::vector<std::string>& ref,
                           const char* what, bool quiet) {
    Progress progress(quiet);
    FeatureRows out;
    for (size_t i = 0; i < hyp.size(); ++i) {
      MAKAR_TRY(const TokenVectors h, vectors(hyp[i]));
      MAKAR_TRY(const TokenVectors r, vectors(ref[i]));
      out.push_back(pair_features(h, r));
      progress.show(what, i + 1, hyp.size());
    }
    return out;
  }

 private:
  Result<TokenVectors> vectors(const std::string& text) {
    MAKAR_TRY(const TokenizedText tokens, tokenize_for_vectors(language_, text, max_tokens_));
    return encoder_(tokens);
  }
  const LanguageModel& language_;
  const TokenEncoder& encoder_;
  size_t max_tokens_;
};

int with_encoder(const LearnedCommand& c, const std::function<int(PairEncoder&)>& use) {
  if (c.max_tokens < 1 || c.max_tokens > 8192)
    return report(error_at("--max-tokens", "must be 1 to 8192, got {}", c.max_tokens)), 2;
  const auto opened = open_on_device(c.model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer"));
  const auto encoder = TokenEncoder::make(*language, device, c.layer);
  if (!encoder.ok()) return report(encoder.error()), 2;
  PairEncoder pairs(*language, *encoder, static_cast<size_t>(c.max_tokens));
  return use(pairs);
}

struct TrainingFiles {
  std::string texts, hyp, ref, scores, output;
  int64_t copies = 4, seed = 1;
};

Result<Json> train_head(PairEncoder& encoder, const TrainingFiles& files) {
  MAKAR_TRY(const auto texts, read_values(files.texts));
  MAKAR_TRY(const auto pairs, synthetic_pairs(texts, files.copies, static_cast<uint64_t>(files.seed)));
  std::vector<std::string> hyp, ref;
  std::vector<std::vector<double>> signals;
  for (const SyntheticPair& one : pairs)
    hyp.push_back(one.hypothesis), ref.push_back(one.reference), signals.push_back(one.signals);
  MAKAR_TRY(const FeatureRows rows, encoder.rows(hyp, ref, "synthetic pairs", false));
  MAKAR_TRY(LearnedHead head, LearnedHead::pretrain(rows, signals));
  head.encoder = encoder.name();
  Json out = {{"file", files.output}, {"synthetic_pairs", pairs.size()}};
  if (!files.scores.empty()) {
    MAKAR_TRY(const auto rated_hyp, read_values(files.hyp));
    MAKAR_TRY(const auto rated_ref, read_values(files.ref));
    MAKAR_TRY(const auto ratings, read_numbers(files.scores));
    MAKAR_RETURN_IF_ERROR(same_count(rated_ref.size(), files.ref, rated_hyp.size(), files.hyp));
    MAKAR_RETURN_IF_ERROR(same_count(rated_ref.size(), files.ref, ratings.size(), files.scores));
    MAKAR_TRY(const FeatureRows rated, encoder.rows(rated_hyp, rated_ref, "ratings", false));
    std::vector<double> before;
    for (const auto& row : rated) before.push_back(head.score(row));
    MAKAR_TRY(const auto fit, head.tune(rated, ratings));
    out.update({{"ratings", ratings.size()},
                {"pearson", fit.pearson},
                {"spearman", fit.spearman},
                {"pretrained_spearman", spearman(before, ratings)},
                {"penalty", fit.penalty}});
  }
  MAKAR_RETURN_IF_ERROR(write_file(files.output, head.json().dump() + "\n"));
  return out;
}

int run_training(const std::vector<std::string>& arguments) {
  LearnedCommand c;
  TrainingFiles files;
  bool json = false;
  Options options("metrics bleurt train",
                  "Train the head of a learned metric: first on corrupted copies of sentences with their "
                  "BLEU, ROUGE-L and chrF, then on ratings.",
                  "makar metrics bleurt train -m ENCODER --texts sentences.txt --hyp rated.jsonl:hyp --ref "
                  "rated.jsonl:ref --scores rated.jsonl:score -o head.json");
  c.declare(options);
  options.group("Data");
  options.add("--texts", &files.texts, "sentences: FILE with one per line, or FILE:COLUMN of a table", "FILE")
      .required = true;
  options.add("--copies", &files.copies, "corrupted copies of each sentence", "N");
  options.add("--hyp", &files.hyp, "texts that were rated", "FILE");
  options.add("--ref", &files.ref, "their references", "FILE");
  options.add("--scores", &files.scores,
              "their ratings, one number each; without them the head learns only the metrics", "FILE");
  options.add("--seed", &files.seed, "seed for the corrupted copies", "S");
  options.group("Head");
  c.declare_vectors(options);
  options.group("Output");
  options.add("-o --output", &files.output, "file to write", "FILE").required = true;
  options.add("--json", &json, "print the result as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (files.copies < 1 || files.copies > 100)
    return report(error_at("--copies", "must be 1 to 100, got {}", files.copies)), 2;
  if (files.scores.empty() != files.hyp.empty() || files.scores.empty() != files.ref.empty())
    return report(error_at("--scores", "ratings need --hyp, --ref and --scores")), 2;
  return with_encoder(c, [&](PairEncoder& encoder) {
    const auto result = train_head(encoder, files);
    if (!result.ok()) return report(result.error());
    std::string text =
        fmt::format("{}: {} synthetic pairs", files.output, (*result)["synthetic_pairs"].dump());
    if (result->contains("ratings"))
      text += fmt::format(
          "; {} ratings, every fifth held out: Pearson {:.4f}, Spearman {:.4f} (before tuning: {:.4f} on all "
          "ratings)",
          (*result)["ratings"].dump(), (*result)["pearson"].get<double>(),
          (*result)["spearman"].get<double>(), (*result)["pretrained_spearman"].get<double>());
    return print_out((json ? result->dump() : text) + "\n") ? 0 : 1;
  });
}

}  // namespace

int run_learned_metric(const std::string& name, const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "train")
    return run_training({arguments.begin() + 1, arguments.end()});
  LearnedCommand c;
  MetricFiles files;
  MetricOutput output;
  std::string head_file;
  Options options("metrics " + name,
                  "A learned metric in the manner of BLEURT: a head on vectors of an encoder.",
                  "makar metrics bleurt -m ENCODER --head head.json --hyp output.txt --ref reference.txt");
  options.subcommand("train", "train the head on corrupted sentences, then on ratings");
  c.declare(options);
  files.declare(options,
                "texts to score: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems",
                "references, in the same order");
  options.group("Metric");
  options.add("--head", &head_file, "the trained head", "FILE").required = true;
  c.declare_vectors(options);
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  const auto json = read_json(head_file);
  if (!json.ok()) return report(json.error());
  const auto head = LearnedHead::from_json(*json, head_file);
  if (!head.ok()) return report(head.error());
  const auto references = read_values(files.ref[0]);
  if (!references.ok()) return report(references.error());
  return with_encoder(c, [&](PairEncoder& encoder) {
    if (encoder.name() != head->encoder)
      return report(
          error_at(head_file, "was trained on vectors of {}, but this is {}", head->encoder, encoder.name()));
    std::unordered_map<std::string, std::vector<double>> scores_by_file;  // each text runs once
    return report_metric(
        files.hyp,
        [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
          std::vector<double> all;
          for (const std::string& file : systems) {
            if (!scores_by_file.contains(file)) {
              MAKAR_TRY(const auto hyp, read_values(file));
              MAKAR_RETURN_IF_ERROR(same_count(references->size(), files.ref[0], hyp.size(), file));
              MAKAR_TRY(const FeatureRows rows, encoder.rows(hyp, *references, "scoring", output.json));
              if (!rows.empty() && rows[0].size() != head->width())
                return error_at(head_file, "has {} features, the encoder gives {}", head->width(),
                                rows[0].size());
              for (const auto& row : rows) scores_by_file[file].push_back(head->score(row));
            }
            all.insert(all.end(), scores_by_file[file].begin(), scores_by_file[file].end());
          }
          return evaluation_of_mean("BLEURT-like",
                                    fmt::format("encoder:{}|head:{}", head->encoder, head->version()), all);
        },
        output);
  });
}

}  // namespace makar
