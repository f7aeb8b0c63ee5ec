// makar detect: estimates whether a model wrote texts, by a watermark or by the model's log-probabilities.
#include <fmt/format.h>

#include "cli/eval_model.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/detector.h"
#include "eval/document_values.h"
#include "eval/watermark.h"

namespace makar {
namespace {

struct DetectCommand {
  EvalModelFlags flags;
  std::string texts, human;
  WatermarkOptions watermark;
  double rate = 0.01;
  bool json = false;
};

// The share of human texts that are flagged, with Wilson's interval.
std::string rate_line(const Json& rate) {
  return fmt::format("false positives {:.4f} ({:.4f} to {:.4f}) of {} human texts\n",
                     rate["value"].get<double>(), rate["low"].get<double>(), rate["high"].get<double>(),
                     rate["n"].dump());
}

int detect_by_watermark(const DetectCommand& c, const LanguageModel& language,
                        const std::vector<std::string>& texts, const std::vector<std::string>& human) {
  const Watermark watermark(c.watermark);
  Json rate;
  if (!human.empty()) {
    int64_t hits = 0;
    for (size_t i = 0; i < human.size(); ++i) {
      const auto tokens = language.encode(human[i]);
      if (!tokens.ok()) return report(tokens.error().in(fmt::format("{}: text {}", c.human, i)));
      hits += test_watermark(watermark, *tokens).p <= c.rate;
    }
    rate = rate_with_interval(hits, static_cast<int64_t>(human.size()));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto tokens = language.encode(texts[i]);
    if (!tokens.ok()) return report(tokens.error().in(fmt::format("text {}", i)));
    const WatermarkTest test = test_watermark(watermark, *tokens);
    const bool flagged = test.p <= c.rate;
    Json out = {{"tokens", test.tokens},
                {"green", test.green},
                {"z", test.z},
                {"p", test.p},
                {"watermarked", flagged}};
    if (!rate.is_null()) out["false_positives"] = rate;
    const std::string line =
        c.json ? out.dump()
               : fmt::format("{} of {} tokens are green, z {:.2f}, p {:.3g}: {}", test.green, test.tokens,
                             test.z, test.p, flagged ? "watermarked" : "no watermark found");
    if (!print_out(line + "\n")) return 1;
  }
  return c.json || rate.is_null() || print_out(rate_line(rate)) ? 0 : 1;
}

int detect_by_logprobs(const DetectCommand& c, Engine& engine, const LanguageModel& language,
                       const std::vector<std::string>& texts, const std::vector<std::string>& human) {
  std::optional<double> threshold;
  Json rate;
  if (!human.empty()) {
    std::vector<double> scores;
    for (const auto& result : detector_scores(engine, language, human)) {
      if (!result.ok()) return report(result.error().in(c.human));
      scores.push_back(result->curvature);
    }
    threshold = threshold_for(scores, c.rate);
    rate = rate_with_interval(held_out_positives(scores, c.rate), static_cast<int64_t>(scores.size()));
  }
  for (const auto& result : detector_scores(engine, language, texts)) {
    if (!result.ok()) return report(result.error().in(c.texts));
    Json out = {{"tokens", result->tokens},
                {"log_rank", result->log_rank},
                {"logprob", result->logprob},
                {"curvature", result->curvature}};
    if (threshold)
      out.update({{"threshold", *threshold},
                  {"flagged", result->curvature > *threshold},
                  {"false_positives", rate}});
    const std::string line =
        c.json
            ? out.dump()
            : fmt::format("log-rank {:.4f}, curvature {:.4f}{}", result->log_rank, result->curvature,
                          !threshold ? ""
                          : result->curvature > *threshold
                              ? fmt::format(", above the threshold {:.4f}: written by the model", *threshold)
                              : fmt::format(", below the threshold {:.4f}: not flagged", *threshold));
    if (!print_out(line + "\n")) return 1;
  }
  return c.json || rate.is_null() || print_out(rate_line(rate)) ? 0 : 1;
}

}  // namespace

int run_detect(const std::vector<std::string>& arguments) {
  DetectCommand c;
  Options options(
      "detect",
      "Estimate whether a model wrote texts: by the watermark of makar generate --watermark-key (an exact "
      "test), or without a key by "
      "log-rank and curvature of the model's log-probabilities.",
      "makar detect -m MODEL --text answers.txt --watermark-key SECRET");
  c.flags.model.declare(options);
  declare_device(options, c.flags.model.device);
  options.group("Texts (FILE, or FILE:COLUMN of a jsonl, json, csv or tsv file)");
  options.add("--text", &c.texts, "texts to test, one per line", "FILE");
  options.add("--human", &c.human,
              "texts that people wrote: sets the threshold of the curvature, and measures the rate of false "
              "positives",
              "FILE");
  options.add("--false-positives", &c.rate, "significance level: share of human texts that may be flagged",
              "P");
  options.group("Watermark");
  options.add("--watermark-key", &c.watermark.key, "the key that the texts were generated with", "KEY");
  options.add("--watermark-share", &c.watermark.share,
              "share of green tokens in the vocabulary; the same as in generation", "X");
  options.group("Output");
  options.add("--json", &c.json, "print a JSON object per text");
  c.flags.engine.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.texts.empty()) return report(error_at("--text", "is required")), 2;
  if (!(c.rate > 0 && c.rate < 1))
    return report(error_at("--false-positives", "must be between 0 and 1, got {}", c.rate)), 2;
  if (!(c.watermark.share > 0 && c.watermark.share < 1))
    return report(error_at("--watermark-share", "must be between 0 and 1, got {}", c.watermark.share)), 2;
  const auto texts = read_values(c.texts);
  if (!texts.ok()) return report(texts.error());
  if (texts->empty()) return report(error_at(c.texts, "has no texts"));
  std::vector<std::string> human;
  if (!c.human.empty()) {
    auto values = read_values(c.human);
    if (!values.ok()) return report(values.error());
    human = std::move(*values);
  }
  return with_engine(c.flags, [&](Engine& engine, const LanguageModel& language) {
    if (language.spec().encoder)
      return report(error_of(Error::Kind::kUnsupported, c.flags.model.model,
                             "detection needs a decoder-only language model, this is a {}",
                             language.spec().architecture));
    return c.watermark.key.empty() ? detect_by_logprobs(c, engine, language, *texts, human)
                                   : detect_by_watermark(c, language, *texts, human);
  });
}

}  // namespace makar
