#include "lexical/text_features.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace makar {
namespace {

constexpr size_t kMaxFeatures = 50'000'000;

// The n-grams of up to `max` words of a text, with repetitions.
template <class Use>
void each_feature(std::string_view text, int64_t max, const Use& use) {
  WordSplitter splitter({"words", true});
  const auto& words = splitter.split(text);
  std::string name;
  for (size_t from = 0; from < words.size(); ++from) {
    name.clear();
    for (size_t n = 0; n < static_cast<size_t>(max) && from + n < words.size(); ++n) {
      if (n > 0) name += ' ';
      name += words[from + n];
      use(name);
    }
  }
}

}  // namespace

TextFeatures TextFeatures::learn(const std::vector<std::string>& texts, const FeatureOptions& options) {
  NumberedWords names;
  std::vector<int64_t> text_counts;
  std::vector<size_t> last_text;
  for (size_t t = 0; t < texts.size(); ++t)
    each_feature(texts[t], options.ngrams, [&](const std::string& name) {
      if (names.size() >= kMaxFeatures && !names.find(name)) return;
      const uint32_t id = names.add(name);
      if (id == text_counts.size()) text_counts.push_back(0), last_text.push_back(texts.size());
      if (last_text[id] != t) last_text[id] = t, ++text_counts[id];
    });
  TextFeatures out;
  out.options_ = options;
  for (uint32_t i = 0; i < names.size(); ++i)
    if (text_counts[i] >= options.min_count) {
      out.names_.add(names.word(i));
      out.idf_.push_back(static_cast<float>(
          std::log((1.0 + static_cast<double>(texts.size())) / (1.0 + static_cast<double>(text_counts[i]))) +
          1));
    }
  return out;
}

SparseVector TextFeatures::counts(std::string_view text) const {
  std::map<uint32_t, float> sums;
  each_feature(text, options_.ngrams, [&](const std::string& name) {
    if (const auto id = names_.find(name)) sums[*id] += 1;
  });
  return {sums.begin(), sums.end()};
}

SparseVector TextFeatures::vector(std::string_view text) const {
  SparseVector out = counts(text);
  if (!options_.tf_idf) return out;
  double square = 0;
  for (auto& [id, value] : out) {
    value = (options_.sublinear ? 1 + std::log(value) : value) * idf_[id];
    square += static_cast<double>(value) * value;
  }
  const auto scale = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
  for (auto& entry : out) entry.second *= scale;
  return out;
}

Json TextFeatures::json() const {
  return {{"ngrams", options_.ngrams},
          {"tf_idf", options_.tf_idf},
          {"sublinear", options_.sublinear},
          {"names", names_.words()},
          {"idf", idf_}};
}

Result<TextFeatures> TextFeatures::from_json(const Json& json, const std::string& place) {
  const auto has = [&](const char* key, bool (Json::*kind)() const) {
    return json.contains(key) && (json[key].*kind)();
  };
  if (!json.is_object() || !has("ngrams", &Json::is_number_integer) || !has("tf_idf", &Json::is_boolean) ||
      !has("sublinear", &Json::is_boolean) || !has("names", &Json::is_array) || !has("idf", &Json::is_array))
    return error_at(place + ": features", "expected ngrams, tf_idf, sublinear, names and idf");
  TextFeatures out;
  out.options_.ngrams = json["ngrams"].get<int64_t>();
  if (out.options_.ngrams < 1 || out.options_.ngrams > 10)
    return error_at(place + ": features.ngrams", "must be 1 to 10, found {}", out.options_.ngrams);
  out.options_.tf_idf = json["tf_idf"].get<bool>(), out.options_.sublinear = json["sublinear"].get<bool>();
  for (const Json& name : json["names"]) {
    if (!name.is_string()) return error_at(place + ": features.names", "expected strings");
    out.names_.add(name.get_ref<const std::string&>());
  }
  for (const Json& idf : json["idf"]) {
    if (!idf.is_number() || !std::isfinite(idf.get<float>()))
      return error_at(place + ": features.idf", "expected finite numbers");
    out.idf_.push_back(idf.get<float>());
  }
  if (out.names_.size() != json["names"].size() || out.idf_.size() != out.names_.size())
    return error_at(place + ": features", "expected distinct names and one idf per name");
  return out;
}

}  // namespace makar
