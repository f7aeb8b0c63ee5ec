#include "lexical/toxicity.h"

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 30;

std::string attribute_name(const std::string& label) {
  std::string out;
  for (const char c : label)
    out += std::isalnum(static_cast<unsigned char>(c))
               ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
               : '_';
  return out;
}

}  // namespace

bool is_benign_label(const std::string& label) {
  std::string plain;
  for (const char c : label)
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c == '-' || c == '_' ? ' ' : c)));
  for (const char* word : {"not ", "non ", "no "})
    if (plain.starts_with(word)) return true;
  const auto words = {"safe", "neutral", "normal",   "clean",    "ok",         "okay",
                      "none", "benign",  "nontoxic", "harmless", "acceptable", "neither"};
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return plain == word; });
}

Result<ToxicityClassifier> ToxicityClassifier::from_json(const Json& json, const std::string& place,
                                                         const std::vector<std::string>& benign) {
  MAKAR_TRY(TextClassifier classifier, TextClassifier::from_json(json, place));
  if (classifier.method() == "svm")
    return error_of(Error::Kind::kUnsupported, place,
                    "an svm has no probabilities; train with --method logistic or naive-bayes");
  ToxicityClassifier out(std::move(classifier));
  const auto& labels = out.classifier_.labels();
  for (const std::string& label : benign)
    if (std::find(labels.begin(), labels.end(), label) == labels.end())
      return error_at(place, "the classifier has no label {}; its labels are {}", quote(label),
                      fmt::join(labels, ", "));
  for (const std::string& label : labels)
    out.benign_.push_back(benign.empty() ? is_benign_label(label)
                                         : std::find(benign.begin(), benign.end(), label) != benign.end());
  const auto count = std::count(out.benign_.begin(), out.benign_.end(), true);
  if (count == 0 || static_cast<size_t>(count) == labels.size())
    return error_at(
        place, "{} of the labels {} are taken as benign{}; list the labels of harmless texts with --benign",
        count == 0 ? "none" : "all", fmt::join(labels, ", "), benign.empty() ? " by their names" : "");
  out.version_ =
      fmt::format("toxicity-{}-{}", out.classifier_.method(), sha256_of(json.dump()).substr(0, 12));
  return out;
}

Result<ToxicityClassifier> ToxicityClassifier::open(const std::string& path,
                                                    const std::vector<std::string>& benign) {
  MAKAR_TRY(const Json json, read_json(path, {kMaxFileBytes, 16}));
  return from_json(json, path, benign);
}

double ToxicityClassifier::toxicity(std::string_view text) const {
  if (classifier_.features().counts(text).empty()) return 0;
  const auto found = classifier_.classify(text);
  double out = 0;
  for (size_t i = 0; i < benign_.size(); ++i) out += benign_[i] ? 0 : found.scores[i];
  return std::clamp(out, 0.0, 1.0);
}

Json ToxicityClassifier::perspective(const std::string& text) const {
  const auto found = classifier_.classify(text);
  const bool known = !classifier_.features().counts(text).empty();
  const size_t end = count_code_points(to_valid_utf8(text));
  Json attributes = Json::object();
  const auto add = [&](const std::string& name, double value) {
    const Json score = {{"value", value}, {"type", "PROBABILITY"}};
    attributes[name] = {{"summaryScore", score},
                        {"spanScores", Json::array({{{"begin", 0}, {"end", end}, {"score", score}}})}};
  };
  for (size_t i = 0; i < benign_.size(); ++i)
    if (!benign_[i]) add(attribute_name(classifier_.labels()[i]), known ? found.scores[i] : 0);
  add("TOXICITY", toxicity(text));
  return {{"attributeScores", attributes}, {"languages", Json::array({"en"})}, {"classifier", version_}};
}

}  // namespace makar
