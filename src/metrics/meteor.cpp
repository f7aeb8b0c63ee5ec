#include "metrics/meteor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "metrics/porter.h"

namespace makar {
namespace {

struct NumberedWord {
  size_t index;
  std::string word;
};
using NumberedWords = std::vector<NumberedWord>;
using Matches = std::map<size_t, size_t>;  // hypothesis index to reference index

// Matches words from the last to the first, each with the last free reference word among its candidates, as
// nltk does.
template <class Candidates>
void match_words(NumberedWords& hyp, NumberedWords& ref, Matches& matches, const Candidates& candidates) {
  std::unordered_map<std::string, std::vector<size_t>> positions;  // of the free reference words, ascending
  for (size_t j = 0; j < ref.size(); ++j) positions[ref[j].word].push_back(j);
  std::vector<bool> matched(ref.size());
  NumberedWords unmatched;
  for (size_t i = hyp.size(); i-- > 0;) {
    std::vector<size_t>* best = nullptr;
    for (const std::string& word : candidates(hyp[i].word))
      if (const auto found = positions.find(word); found != positions.end() && !found->second.empty())
        if (!best || found->second.back() > best->back()) best = &found->second;
    if (!best) {
      unmatched.push_back(std::move(hyp[i]));
      continue;
    }
    matches[hyp[i].index] = ref[best->back()].index;
    matched[best->back()] = true;
    best->pop_back();
  }
  std::reverse(unmatched.begin(), unmatched.end());
  hyp = std::move(unmatched);
  NumberedWords remaining;
  for (size_t j = 0; j < ref.size(); ++j)
    if (!matched[j]) remaining.push_back(std::move(ref[j]));
  ref = std::move(remaining);
}

NumberedWords numbered(const WordList& words) {
  NumberedWords out;
  for (size_t i = 0; i < words.size(); ++i) out.push_back({i, lowered(words[i])});
  return out;
}

// Runs of matches that are adjacent on both sides.
size_t count_chunks(const Matches& matches) {
  size_t chunks = 0, hyp = 0, ref = 0;
  for (const auto& [i, j] : matches) {
    if (chunks == 0 || i != hyp + 1 || j != ref + 1) ++chunks;
    hyp = i, ref = j;
  }
  return chunks;
}

}  // namespace

double meteor(const WordList& hyp_words, const WordList& ref_words, const MeteorOptions& o) {
  NumberedWords hyp = numbered(hyp_words), ref = numbered(ref_words);
  Matches matches;
  const auto itself = [](const std::string& word) { return WordList{word}; };
  match_words(hyp, ref, matches, itself);
  // From here on the remaining words are compared by their stems, also as synonyms.
  for (NumberedWords* words : {&hyp, &ref})
    for (NumberedWord& w : *words) w.word = porter_stem(w.word);
  match_words(hyp, ref, matches, itself);
  if (o.synonyms)
    match_words(hyp, ref, matches, [&](const std::string& word) {
      WordList all = o.synonyms(word);
      all.push_back(word);
      return all;
    });
  if (matches.empty()) return 0;
  const auto count = static_cast<double>(matches.size());
  const double precision = count / static_cast<double>(hyp_words.size());
  const double recall = count / static_cast<double>(ref_words.size());
  const double mean = precision * recall / (o.alpha * precision + (1 - o.alpha) * recall);
  const double fragments = static_cast<double>(count_chunks(matches)) / count;
  return (1 - o.gamma * std::pow(fragments, o.beta)) * mean;
}

Result<Evaluation> evaluate_meteor(const Segments& segments, const MeteorOptions& o) {
  std::vector<double> unit_scores;
  for (const Segment& s : segments) {
    const WordList hyp = split_words(o.words, s.hypothesis);
    double best = 0;
    for (const std::string& r : s.references) best = std::max(best, meteor(hyp, split_words(o.words, r), o));
    unit_scores.push_back(best);
  }
  return evaluation_of_mean(
      "METEOR",
      fmt::format("nrefs:{}|case:lc|tok:{}|alpha:{:g}|beta:{:g}|gamma:{:g}|stem:porter-nltk|"
                  "synonyms:{}",
                  reference_count(segments), name(o.words), o.alpha, o.beta, o.gamma,
                  o.synonyms ? "wordnet-3.0" : "none"),
      std::move(unit_scores));
}

}  // namespace makar
