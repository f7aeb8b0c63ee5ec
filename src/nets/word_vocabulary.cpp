#include "nets/word_vocabulary.h"

#include <algorithm>
#include <map>

namespace makar {

WordVocabulary WordVocabulary::count(const std::vector<std::string>& texts, int64_t min_count,
                                     size_t max_words) {
  std::map<std::string, int64_t> counts;
  WordSplitter splitter({"words", true});
  for (const std::string& text : texts)
    for (const std::string_view word : splitter.split(text)) ++counts[std::string(word)];
  std::vector<std::pair<std::string, int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  WordVocabulary out;
  for (const auto& [word, n] : order) {
    if (n < min_count || out.words_.size() >= max_words) break;
    out.indices_.emplace(word, out.size());
    out.words_.push_back(word);
  }
  return out;
}

Result<WordVocabulary> WordVocabulary::from_json(const Json& json, const std::string& place) {
  constexpr size_t kMaxWords = size_t{1} << 22;
  WordVocabulary out;
  if (!json.is_array() || json.size() > kMaxWords)
    return error_at(place, "expected a list of at most {} words", kMaxWords);
  for (const Json& word : json) {
    if (!word.is_string()) return error_at(place, "expected a list of words");
    if (!out.indices_.emplace(word.get<std::string>(), out.size()).second)
      return error_at(place, "the word '{}' occurs twice", word.get<std::string>());
    out.words_.push_back(word.get<std::string>());
  }
  return out;
}

std::vector<int64_t> WordVocabulary::ids(std::string_view text) const {
  WordSplitter splitter({"words", true});
  std::vector<int64_t> out;
  for (const std::string_view word : splitter.split(text)) {
    const auto it = indices_.find(std::string(word));
    out.push_back(it == indices_.end() ? kUnknown : it->second);
  }
  return out;
}

}  // namespace makar
