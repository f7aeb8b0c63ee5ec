#include "llm/classify.h"

#include <algorithm>
#include <cmath>

namespace makar {

std::vector<std::string> label_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  const Json labels = spec.config.is_object() ? spec.config.value("id2label", Json()) : Json();
  for (int64_t i = 0; i < spec.head.labels; ++i) {
    const std::string key = std::to_string(i);
    const bool named = labels.is_object() && labels.contains(key) && labels[key].is_string();
    names.push_back(named ? labels[key].get<std::string>() : "LABEL_" + key);
  }
  return names;
}

bool is_multi_label(const ModelSpec& spec) {
  return spec.config.is_object() &&
         spec.config.value("problem_type", Json()) == Json("multi_label_classification");
}

namespace {

// For a model whose config.json does not limit the positions.
constexpr size_t kMaxClassifierTokens = 4096;

Result<EncodeOptions> classifier_options(const ModelSpec& spec, WorkBudget* work) {
  if (spec.head.kind != HeadKind::kSequenceClass || (spec.encoder && spec.decoder))
    return error_of(Error::Kind::kUnsupported, "model", "a {} does not classify texts", spec.architecture);
  EncodeOptions o;
  o.add_special = true, o.offsets = false, o.work = work;
  o.truncation =
      Truncation{spec.max_positions > 0 ? static_cast<size_t>(spec.max_positions) : kMaxClassifierTokens};
  return o;
}

Result<TypedTokens> typed_tokens(const ModelSpec& spec, const Encoding& e) {
  if (e.ids.empty()) return error_at("text", "has no tokens");
  TypedTokens out;
  out.ids.assign(e.ids.begin(), e.ids.end());
  if (const int64_t types = spec.main().embedding.types; types > 0)
    for (const uint8_t type : e.type_ids) out.types.push_back(std::min<int64_t>(type, types - 1));
  return out;
}

}  // namespace

Result<TypedTokens> classifier_tokens(const LanguageModel& language, const std::string& text,
                                      WorkBudget* work) {
  MAKAR_TRY(const EncodeOptions o, classifier_options(language.spec(), work));
  MAKAR_TRY(const Encoding e, language.tokenizer().encode(text, o));
  return typed_tokens(language.spec(), e);
}

Result<ClassifierPairs> ClassifierPairs::of(const LanguageModel& language, const std::string& first,
                                            WorkBudget* work) {
  MAKAR_TRY(const EncodeOptions o, classifier_options(language.spec(), work));
  MAKAR_TRY(Encoding encoded, language.tokenizer().encode_part(first, o, 0));
  return ClassifierPairs(language, first, std::move(encoded), work);
}

Result<TypedTokens> ClassifierPairs::with(const std::string& second) const {
  MAKAR_TRY(const EncodeOptions o, classifier_options(language_->spec(), work_));
  MAKAR_TRY(const Encoding e, language_->tokenizer().encode_pair(first_, encoded_, second, o));
  return typed_tokens(language_->spec(), e);
}

std::vector<float> class_logits(const Model& model, Device& device, const Tensor& states,
                                const TypedTokens& text) {
  Batch batch;
  batch.add(text.ids);
  batch.types = text.types;
  Context ctx{device};
  const Tensor logits = model.outputs(ctx, states.to(device.memory()), batch).at("logits").host();
  return {logits.f32(), logits.f32() + logits.count()};
}

std::vector<double> class_probabilities(const std::vector<float>& logits, bool multi_label) {
  std::vector<double> out;
  if (multi_label || logits.size() == 1) {
    for (const float l : logits) out.push_back(1 / (1 + std::exp(-static_cast<double>(l))));
    return out;
  }
  const double max = logits.empty() ? 0 : *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += out.emplace_back(std::exp(static_cast<double>(l) - max));
  for (double& p : out) p /= sum;
  return out;
}

}  // namespace makar
