// makar metrics grammaticality: the probability that a text is acceptable, by a classifier trained on such
// labels (CoLA).
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/progress.h"
#include "cli/metrics.h"
#include "cli/metrics_input.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "infer/encode_job.h"
#include "infer/engine.h"
#include "llm/classify.h"

namespace makar {
namespace {

constexpr size_t kTextsPerBatch = 64;

Result<std::vector<double>> probabilities_of(Engine& engine, const LanguageModel& language, Device& device,
                                             const std::vector<std::string>& texts, size_t label,
                                             bool quiet) {
  Progress progress(quiet);
  std::vector<double> out;
  for (size_t begin = 0; begin < texts.size(); begin += kTextsPerBatch) {
    std::vector<TypedTokens> tokens;
    std::vector<std::shared_ptr<EncodeJob>> jobs;
    for (size_t i = begin; i < std::min(texts.size(), begin + kTextsPerBatch); ++i) {
      auto one = classifier_tokens(language, texts[i]);
      if (!one.ok()) return one.error().in(segment_place(i));
      jobs.push_back(std::make_shared<EncodeJob>(one->ids, one->types));
      tokens.push_back(std::move(*one));
      engine.submit(jobs.back());
    }
    engine.run();
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i]->error) return jobs[i]->error->in(segment_place(begin + i));
      const auto logits = class_logits(language.model(), device, jobs[i]->states(), tokens[i]);
      out.push_back(class_probabilities(logits, is_multi_label(language.spec())).at(label));
    }
    progress.show("scoring", out.size(), texts.size());
  }
  return out;
}

// The index of the label of acceptable texts: the label `name`, or the first common name that is found.
Result<size_t> find_label(const std::vector<std::string>& names, const std::string& name) {
  const std::vector<std::string> candidates =
      name.empty() ? std::vector<std::string>{"acceptable", "grammatical", "1", "LABEL_1"}
                   : std::vector<std::string>{name};
  for (const std::string& word : candidates)
    if (const auto at = std::find(names.begin(), names.end(), word); at != names.end())
      return static_cast<size_t>(at - names.begin());
  return error_at("--label", "expected the label of acceptable texts, one of {}{}", fmt::join(names, ", "),
                  name.empty() ? "" : fmt::format("; got '{}'", name));
}

}  // namespace

int run_grammaticality_metric(const std::string& name, const std::vector<std::string>& arguments) {
  ModelOptions model;
  MetricOutput output;
  std::vector<std::string> hyp;
  std::string label;
  Options options("metrics " + name,
                  "The mean probability that texts are acceptable, by a classifier that was trained on "
                  "judgements such as CoLA; with the share above one half.",
                  "makar metrics grammaticality -m cola-classifier --hyp output.txt");
  model.declare(options);
  declare_device(options, model.device);
  options.group("Input");
  options
      .add("--hyp", &hyp,
           "texts to score: FILE with one per line, or FILE:COLUMN of a table; repeat for more systems",
           "FILE")
      .required = true;
  options.group("Metric");
  options.add("--label", &label,
              "the classifier's label of acceptable texts; acceptable, grammatical or 1 if not set", "NAME");
  if (const auto code = parse_metric(options, output, arguments)) return *code;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (language->spec().head.kind != HeadKind::kSequenceClass || !language->has_tokenizer())
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "needs a classifier of texts; train one with `makar classify train`"));
  const auto at = find_label(label_names(language->spec()), label);
  if (!at.ok()) return report(at.error()), 2;
  EngineOptions engine_options;
  engine_options.step_tokens = 2048, engine_options.share_prefixes = false;
  Engine engine(language->model(), device, engine_options);
  std::unordered_map<std::string, std::vector<double>> scores_by_file;  // each text runs once
  return report_metric(
      hyp,
      [&](const std::vector<std::string>& systems) -> Result<Evaluation> {
        std::vector<double> all;
        for (const std::string& file : systems) {
          if (!scores_by_file.contains(file)) {
            MAKAR_TRY(const auto texts, read_values(file));
            MAKAR_TRY(scores_by_file[file],
                      probabilities_of(engine, *language, device, texts, *at, output.json));
          }
          all.insert(all.end(), scores_by_file[file].begin(), scores_by_file[file].end());
        }
        if (all.empty()) return error_at(systems[0], "has no text to score");
        const auto acceptable = std::count_if(all.begin(), all.end(), [](double p) { return p > 0.5; });
        const double share = static_cast<double>(acceptable) / static_cast<double>(all.size());
        Evaluation e = evaluation_of_mean(
            "grammaticality",
            fmt::format("model:{}|label:{}", language->spec().family, label_names(language->spec())[*at]),
            std::move(all));
        e.details = {{"acceptable", share}};
        return e;
      },
      output);
}

}  // namespace makar
