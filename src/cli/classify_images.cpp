// makar classify image: classifies images by the texts of --labels (CLIP), or by the labels of an image
// classifier.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/trim.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/classify.h"
#include "llm/embed.h"
#include "llm/image_inputs.h"

namespace makar {
namespace {

constexpr size_t kMaxImageLabels = 10000;

Result<std::vector<std::string>> split_labels(const std::string& text) {
  std::vector<std::string> labels;
  std::istringstream in(text);
  for (std::string label; std::getline(in, label, ',');) {
    if (std::string name = trimmed(label); !name.empty()) labels.push_back(std::move(name));
  }
  if (labels.empty() || labels.size() > kMaxImageLabels)
    return error_at("--labels", "expected 1 to {} labels separated by commas, got {}", kMaxImageLabels,
                    labels.size());
  return labels;
}

// `pattern` with each {} replaced by the label.
std::string fill_template(const std::string& pattern, const std::string& label) {
  std::string out = pattern;
  for (size_t at = 0; (at = out.find("{}", at)) != std::string::npos; at += label.size())
    out.replace(at, 2, label);
  return out;
}

struct ImageLabels {
  std::vector<std::string> names;
  Tensor vectors;  // CLIP: the embeddings of the labels
};

Result<ImageLabels> open_labels(const LanguageModel& language, Device& device, const std::string& labels,
                                const std::string& pattern) {
  const bool contrastive = language.spec().head.kind == HeadKind::kContrastive;
  if (!contrastive && !labels.empty())
    return error_of(Error::Kind::kUnsupported, "--labels",
                    "a {} does not compare images with texts; CLIP does", language.spec().architecture);
  if (!contrastive) return ImageLabels{label_names(language.spec()), {}};
  if (labels.empty()) return error_at("--labels", "is needed: CLIP compares an image with texts");
  if (!language.has_tokenizer()) return error_of(Error::Kind::kNotFound, "model", "has no tokenizer");
  ImageLabels out;
  MAKAR_TRY(out.names, split_labels(labels));
  std::vector<std::string> texts;
  for (const std::string& name : out.names) texts.push_back(fill_template(pattern, name));
  Engine engine(language.model(), device, Embedder::engine_options());
  MAKAR_TRY(const Tensor embeddings, embed(engine, language, texts, {}));
  out.vectors = embeddings.to(device.memory());
  return out;
}

// {"image", "labels": [{"label", "score"}]}, the most probable first.
Result<Json> classify_image(const LanguageModel& language, Device& device, const std::string& path,
                            const ImageLabels& labels, int64_t top) {
  MAKAR_TRY(const auto images, read_image_inputs(language, {path}));
  Tensor logits;
  if (labels.vectors.defined()) {
    MAKAR_TRY(const Tensor vectors, image_vectors(language, device, *images));
    Context ctx{device};
    logits = language.model().contrast(ctx, vectors.to(device.memory()), labels.vectors).host();
  } else {
    MAKAR_TRY(logits, image_logits(language, device, *images));
  }
  const auto scores = class_probabilities({logits.span().begin(), logits.span().end()}, false);
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  Json list = Json::array();
  for (size_t i = 0; i < order.size() && static_cast<int64_t>(i) < top; ++i)
    list.push_back({{"label", labels.names[order[i]]}, {"score", scores[order[i]]}});
  return Json{{"image", path}, {"labels", std::move(list)}};
}

}  // namespace

int run_classify_images(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::vector<std::string> images;
  std::string labels, pattern = "{}";
  int64_t top = 5;
  bool json = false;
  Options options("classify image",
                  "Classify images: CLIP compares them with the texts of --labels, an image classifier has "
                  "its own labels.",
                  "makar classify image -m MODEL --labels \"a cat,a dog\" photo.jpg");
  model.declare(options);
  declare_device(options, model.device);
  options.group("Images");
  options.positional("IMAGE", &images, "one or more files: JPEG, PNG or WebP");
  options.add("--labels", &labels, "labels for CLIP, separated by commas", "LIST");
  options.add("--template", &pattern, "text to embed for a label, which replaces {}, such as 'a photo of {}'",
              "TEXT");
  options.group("Output");
  options.add("--top", &top, "print this many labels per image", "N");
  options.add("--json --jsonl", &json, "print one {\"image\", \"labels\"} object per line");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (top < 1) return report(error_at("--top", "must be at least 1, got {}", top)), 2;
  if (pattern.find("{}") == std::string::npos)
    return report(error_at("--template", "must contain {{}}, the place of the label")), 2;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  const auto label_set = open_labels(*language, device, labels, pattern);
  if (!label_set.ok()) return report(label_set.error());
  int code = 0;
  for (const std::string& path : images) {
    const auto result = classify_image(*language, device, path, *label_set, top);
    if (!result.ok()) {
      code = report(result.error());
      continue;
    }
    if (json) {
      if (!print_out(dump(*result) + "\n")) break;
      continue;
    }
    std::string line = path + ":";
    for (const Json& one : (*result)["labels"])
      line += fmt::format("{} {} {:.4f}", line.ends_with(':') ? "" : ",", one["label"].get<std::string>(),
                          one["score"].get<double>());
    if (!print_out(line + "\n")) break;
  }
  return code;
}

}  // namespace makar
