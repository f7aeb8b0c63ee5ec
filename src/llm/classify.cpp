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

Result<TypedTokens> classifier_tokens(const LanguageModel& language, const std::string& text,
                                      const std::string* second) {
  const ModelSpec& spec = language.spec();
  if (spec.head.kind != HeadKind::kSequenceClass || (spec.encoder && spec.decoder))
    return error_of(Error::Kind::kUnsupported, "model", "a {} does not classify texts", spec.architecture);
  EncodeOptions o;
  o.add_special = true, o.offsets = false;
  o.truncation = Truncation{spec.max_positions > 0 ? static_cast<size_t>(spec.max_positions) : 4096};
  MAKAR_TRY(const Encoding e, second ? language.tokenizer().encode_pair(text, *second, o)
                                     : language.tokenizer().encode(text, o));
  if (e.ids.empty()) return error_at("text", "has no tokens");
  TypedTokens out;
  out.ids.assign(e.ids.begin(), e.ids.end());
  if (const int64_t types = spec.main().embedding.types; types > 0)
    for (const uint8_t type : e.type_ids) out.types.push_back(std::min<int64_t>(type, types - 1));
  return out;
}

std::vector<float> class_logits(const Model& model, ThreadPool& pool, const Tensor& states,
                                const TypedTokens& text) {
  Batch batch;
  batch.add(text.ids);
  batch.types = text.types;
  Context ctx{pool};
  const Tensor logits = model.outputs(ctx, states, batch).at("logits");
  return {logits.f32(), logits.f32() + logits.count()};
}

std::vector<double> class_probabilities(const std::vector<float>& logits, bool multi_label) {
  std::vector<double> out;
  if (multi_label || logits.size() == 1) {
    for (const float l : logits) out.push_back(1 / (1 + std::exp(-static_cast<double>(l))));
    return out;
  }
  const double most = logits.empty() ? 0 : *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += out.emplace_back(std::exp(static_cast<double>(l) - most));
  for (double& p : out) p /= sum;
  return out;
}

}  // namespace makar
