#include "metrics/diversity.h"

#include <unordered_map>
#include <unordered_set>

#include "metrics/ngrams.h"

namespace makar {
namespace {

constexpr size_t kMaxOrder = 4;
constexpr double kMtldRatio = 0.72;

// The mean length of segments of words whose type-token ratio stays above kMtldRatio; the last one counts in
// part.
template <class Iterator>
double mtld_one_way(Iterator begin, Iterator end) {
  double segments = 0, length = 0, types = 0;
  std::unordered_set<std::string> seen;
  double words = 0;
  for (; begin != end; ++begin) {
    words += 1, length += 1;
    if (seen.insert(*begin).second) types += 1;
    if (types / length <= kMtldRatio) segments += 1, length = types = 0, seen.clear();
  }
  if (length > 0) segments += (1 - types / length) / (1 - kMtldRatio);
  return segments > 0 ? words / segments : words;
}

WordList diversity_words(const std::string& text, WordSplit split) {
  return split_words(split, lowered(text));
}

}  // namespace

double type_token_ratio(const WordList& words) {
  if (words.empty()) return 0;
  return static_cast<double>(std::unordered_set<std::string>(words.begin(), words.end()).size()) /
         static_cast<double>(words.size());
}

double moving_type_token_ratio(const WordList& words, size_t window) {
  if (words.size() <= window) return type_token_ratio(words);
  std::unordered_map<std::string, size_t> counts;
  double sum = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    ++counts[words[i]];
    if (i >= window)
      if (const auto old = counts.find(words[i - window]); --old->second == 0) counts.erase(old);
    if (i + 1 >= window) sum += static_cast<double>(counts.size()) / static_cast<double>(window);
  }
  return sum / static_cast<double>(words.size() - window + 1);
}

double mtld(const WordList& words) {
  if (words.empty()) return 0;
  return (mtld_one_way(words.begin(), words.end()) + mtld_one_way(words.rbegin(), words.rend())) / 2;
}

Evaluation evaluate_distinct(const std::vector<std::string>& texts, int64_t n, WordSplit split) {
  std::vector<WordList> words;
  for (const std::string& text : texts) words.push_back(split_words(split, text));
  // For one order n: the ids of the distinct n-grams of each text, and the number of all its n-grams.
  struct Grams {
    std::vector<std::vector<uint32_t>> ids;
    std::vector<double> totals;
    size_t count = 0;
  };
  const auto grams_of = [&](size_t order) {
    auto out = std::make_shared<Grams>();
    std::unordered_map<std::string, uint32_t> id_by_gram;
    for (const WordList& text : words) {
      auto& ids = out->ids.emplace_back();
      for (const auto& [gram, times] : count_ngrams(text, order))
        ids.push_back(id_by_gram.emplace(gram, static_cast<uint32_t>(id_by_gram.size())).first->second);
      out->totals.push_back(static_cast<double>(ngram_total(text.size(), order)));
    }
    out->count = id_by_gram.size();
    return out;
  };
  const auto distinct = [](const Grams& grams, Sample sample) {
    std::vector<bool> seen(grams.count);
    double different = 0, total = 0;
    for (const uint32_t i : sample) {
      for (const uint32_t id : grams.ids[i])
        if (!seen[id]) seen[id] = true, different += 1;
      total += grams.totals[i];
    }
    return total > 0 ? different / total : 0;
  };
  Evaluation out;
  out.name = fmt::format("distinct-{}", n);
  out.signature = fmt::format("n:{}|case:mixed|tok:{}", n, name(split));
  out.units = texts.size();
  std::vector<uint32_t> all_units(texts.size());
  for (size_t i = 0; i < all_units.size(); ++i) all_units[i] = static_cast<uint32_t>(i);
  for (size_t order = 1; order <= kMaxOrder; ++order)
    out.details[fmt::format("distinct-{}", order)] = distinct(*grams_of(order), all_units);
  const std::shared_ptr<const Grams> grams = grams_of(static_cast<size_t>(n));
  out.score = distinct(*grams, all_units);
  out.score_of = [distinct, grams](Sample sample) { return distinct(*grams, sample); };
  return out;
}

Evaluation evaluate_repetition(const std::vector<std::string>& texts, int64_t n, WordSplit split) {
  std::vector<double> unit_scores;
  std::vector<double> sums(kMaxOrder);
  for (const std::string& text : texts) {
    const WordList words = split_words(split, text);
    const auto repeated = [&](size_t order) {
      const auto total = static_cast<double>(ngram_total(words.size(), order));
      return total > 0 ? 1 - static_cast<double>(count_ngrams(words, order).size()) / total : 0;
    };
    for (size_t order = 1; order <= kMaxOrder; ++order) sums[order - 1] += repeated(order);
    unit_scores.push_back(repeated(static_cast<size_t>(n)));
  }
  Evaluation out =
      evaluation_of_mean(fmt::format("rep-{}", n), fmt::format("n:{}|case:mixed|tok:{}", n, name(split)),
                         std::move(unit_scores));
  for (size_t order = 1; order <= kMaxOrder; ++order)
    out.details[fmt::format("rep-{}", order)] =
        texts.empty() ? 0 : sums[order - 1] / static_cast<double>(texts.size());
  out.lower_is_better = true;
  return out;
}

Evaluation evaluate_lexical_diversity(const std::vector<std::string>& texts, int64_t window,
                                      WordSplit split) {
  std::vector<double> unit_scores;
  double ratio = 0, moving = 0;
  for (const std::string& text : texts) {
    const WordList words = diversity_words(text, split);
    ratio += type_token_ratio(words);
    moving += moving_type_token_ratio(words, static_cast<size_t>(window));
    unit_scores.push_back(mtld(words));
  }
  Evaluation out = evaluation_of_mean(
      "MTLD", fmt::format("case:lc|tok:{}|threshold:{:g}|window:{}", name(split), kMtldRatio, window),
      std::move(unit_scores));
  const double count = texts.empty() ? 1 : static_cast<double>(texts.size());
  out.details = {{"ttr", ratio / count}, {"mattr", moving / count}, {"mtld", out.score}};
  return out;
}

}  // namespace makar
