// makar classify run with a classifier or tagger of `makar classify train --method`.
#include <fmt/format.h>

#include "base/file.h"
#include "cli/classify_lexical.h"
#include "cli/classify_output.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "data/schema.h"
#include "lexical/hmm.h"
#include "lexical/text_classifier.h"
#include "lexical/toxicity.h"
#include "nets/text_cnn.h"

namespace makar {
namespace {

// One of: a convolutional network (a folder), a tagger, a classifier; with --perspective also the toxicity
// scores of the classifier.
struct LexicalModel {
  std::optional<TextCnn> cnn;
  std::unique_ptr<Device> device;  // of the network
  std::optional<HmmTagger> tagger;
  std::optional<TextClassifier> classifier;
  std::optional<ToxicityClassifier> toxicity;

  static Result<LexicalModel> open(const std::string& path, bool perspective,
                                   const std::vector<std::string>& benign);
  std::vector<std::string> labels() const;
  ClassAnswer answer(const std::string& text, bool scores);
  Json tags_of(const std::string& text, bool scores) const;
};

Result<LexicalModel> LexicalModel::open(const std::string& path, bool perspective,
                                        const std::vector<std::string>& benign) {
  LexicalModel out;
  Json json = Json::object();
  if (is_folder(path)) {
    MAKAR_TRY(out.cnn, TextCnn::load(path));
    MAKAR_TRY(out.device, open_device_option("cpu", 1));
  } else {
    MAKAR_TRY(json, read_json(path, {size_t{4} << 30, 16}));
  }
  if (json.is_object() && json.contains("tags")) {
    MAKAR_TRY(out.tagger, HmmTagger::from_json(json, path));
  } else if (!out.cnn) {
    MAKAR_TRY(out.classifier, TextClassifier::from_json(json, path));
  }
  if (perspective) {
    MAKAR_TRY(out.toxicity, ToxicityClassifier::from_json(json, path, benign));
  }
  return out;
}

std::vector<std::string> LexicalModel::labels() const {
  if (cnn) return cnn->labels();
  return classifier ? classifier->labels() : std::vector<std::string>{};
}

ClassAnswer LexicalModel::answer(const std::string& text, bool scores) {
  if (toxicity) return {toxicity->perspective(text), {}};
  if (cnn) return {{}, cnn->classify({text}, *device)[0]};
  if (classifier) return {{}, classifier->classify(text).scores};
  return {tags_of(text, scores), {}};
}

Json LexicalModel::tags_of(const std::string& text, bool scores) const {
  WordSplitter splitter({});
  const auto& views = splitter.split(text);
  const std::vector<std::string> words(views.begin(), views.end());
  Json out = {{"tokens", words}, {"tags", tagger->tag(words)}};
  if (!scores) return out;
  constexpr double kMinProbability = 1e-4;  // of a tag in the output
  double log_prob = 0;
  out["scores"] = Json::array();
  for (const std::vector<double>& row : tagger->posteriors(words, &log_prob)) {
    Json tags = Json::object();
    for (size_t i = 0; i < row.size(); ++i)
      if (row[i] >= kMinProbability) tags[tagger->tags()[i]] = row[i];
    out["scores"].push_back(tags);
  }
  out["log_prob"] = log_prob;
  return out;
}

}  // namespace

std::string lexical_model(const std::vector<std::string>& arguments) {
  for (const std::string& a : arguments)
    if ((a.ends_with(".json") && is_file(a)) || is_file(a + "/net.json")) return a;
  return "";
}

int run_classify_lexical_lines(const std::vector<std::string>& arguments) {
  std::string path;
  ClassifyOutput output;
  bool perspective = false;
  std::vector<std::string> benign;
  Options options(
      "classify run",
      "Classify texts or tag words with a model of `makar classify train --method`: one result per line.",
      "echo 'a fine film' | makar classify run sentiment.json");
  Options::Option& file = options.add("-m --model", &path, "file of the classifier", "FILE");
  file.position = "MODEL";
  output.declare(options, "lines are JSON: {\"text\"} or two texts, as {\"sentence1\", \"sentence2\"}");
  options.add("--perspective", &perspective,
              "print toxicity scores in the format of the Perspective API; every label except the harmless "
              "one is toxic");
  options.add("--benign", &benign,
              "label for harmless texts, if it is not a common name such as `safe`; with --perspective",
              "LABEL");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  auto model = LexicalModel::open(path, perspective, benign);
  if (!model.ok()) return report(model.error());
  const auto classify = [&](const std::vector<Json>& records) {
    std::vector<Result<ClassAnswer>> out;
    for (const Json& record : records) {
      const auto pair = text_pair_fields(record);
      const Json* text = pair.first ? pair.first : text_field(record);
      if (!text || !text->is_string())
        out.emplace_back(error_at("", "expected an object with \"text\""));
      else
        out.emplace_back(model->answer(
            text->get<std::string>() + (pair.second ? "\n" + pair.second->get<std::string>() : ""),
            output.scores));
    }
    return out;
  };
  return output.run({model->labels()}, classify);
}

}  // namespace makar
