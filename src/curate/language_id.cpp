#include "curate/language_id.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/hash.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxDetectedBytes = 4000;

// Calls `use` with the bucket of every n-gram of letters in lower case; runs of other characters are one
// blank.
template <class Use>
void each_ngram(std::string_view text, const Use& use) {
  uint64_t last[4] = {' ', ' ', ' ', ' '};  // the newest first
  const auto push = [&](uint64_t c) {
    if (c == ' ' && last[0] == ' ') return;
    last[3] = last[2], last[2] = last[1], last[1] = last[0], last[0] = c;
    uint64_t h = 0;
    for (size_t n = 0; n < 4; ++n) {
      h = fold_multiply(h ^ (last[n] + n * 0x1000000), 0x9E3779B97F4A7C15u) + last[n];
      use(fold_multiply(h, 0xE7037ED1A0B428DBu) % LanguageId::kBuckets);
    }
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.size;
    if (c.ok && in(c.code, kLetter))
      push(c.code < 0x80 ? (c.code | 32) : static_cast<uint64_t>(lowercase(c.code)[0]));
    else
      push(' ');
  }
}

}  // namespace

Result<LanguageId> LanguageId::train(const std::map<std::string, std::string>& samples) {
  if (samples.size() < 2 || samples.size() > 1000)
    return error_at("languages", "expected samples of 2 to 1000 languages, found {}", samples.size());
  LanguageId out;
  for (const auto& [language, text] : samples) {
    std::vector<double> counts(kBuckets, 0.5);  // smoothing: half an occurrence per bucket
    double sum = 0.5 * kBuckets;
    each_ngram(text, [&](size_t bucket) { ++counts[bucket], ++sum; });
    constexpr double kMinNgrams = 100;
    if (sum < 0.5 * kBuckets + kMinNgrams) return error_at(language, "the sample has too few letters");
    out.languages_.push_back(language);
    auto& row = out.log_prob_.emplace_back();
    for (const double c : counts) row.push_back(static_cast<float>(std::log(c / sum)));
  }
  return out;
}

LanguageId::Answer LanguageId::detect(std::string_view text) const {
  text = text.substr(0, std::min(text.size(), kMaxDetectedBytes));
  std::vector<double> scores(languages_.size(), 0);
  double count = 0;
  each_ngram(text, [&](size_t bucket) {
    ++count;
    for (size_t i = 0; i < scores.size(); ++i) scores[i] += static_cast<double>(log_prob_[i][bucket]);
  });
  const size_t best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  // N-grams overlap, so their evidence is not independent: only a tenth of it counts, at least one n-gram's.
  const double scale = count > 0 ? std::max(0.1, 1 / count) : 1;
  double sum = 0;
  for (const double s : scores) sum += std::exp((s - scores[best]) * scale);
  return {languages_[best], 1 / sum};
}

Json LanguageId::json() const {
  return {{"makar", "language-id"}, {"languages", languages_}, {"log_prob", log_prob_}};
}

Result<LanguageId> LanguageId::from_json(const Json& json, const std::string& place) {
  LanguageId out;
  if (!json.is_object() || !json.contains("languages") || !json["languages"].is_array() ||
      !json.contains("log_prob") || !json["log_prob"].is_array())
    return error_at(place, "expected a model of makar data language train: 'languages' and 'log_prob'");
  for (const Json& l : json["languages"]) {
    if (!l.is_string()) return error_at(place + ": languages", "expected strings");
    out.languages_.push_back(l.get<std::string>());
  }
  if (out.languages_.size() < 2 || out.languages_.size() > 1000 ||
      json["log_prob"].size() != out.languages_.size())
    return error_at(place, "expected 2 to 1000 languages with one list of numbers each");
  for (const Json& row : json["log_prob"]) {
    if (!row.is_array() || row.size() != kBuckets)
      return error_at(place + ": log_prob", "expected {} numbers per language", kBuckets);
    auto& to = out.log_prob_.emplace_back();
    for (const Json& v : row) {
      if (!v.is_number() || !std::isfinite(v.get<float>()))
        return error_at(place + ": log_prob", "expected finite numbers");
      to.push_back(v.get<float>());
    }
  }
  return out;
}

}  // namespace makar
