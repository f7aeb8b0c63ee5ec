// Changes of characters and sentences, and adversarial changes.
#include <algorithm>
#include <optional>
#include <set>

#include "augment/changes.h"

namespace makar {
namespace {

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Keys next to a letter on an English keyboard.
const char* adjacent_keys(char letter) {
  static constexpr const char* kKeys[26] = {"qsz", "vgn", "xdv", "sfe", "wrd", "dgr", "fht", "gjy", "uok",
                                            "hku", "jli", "kop", "njk", "bmh", "ipl", "ol",  "wa",  "etf",
                                            "adw", "ryg", "yij", "cbf", "qes", "zcs", "tuh", "xas"};
  return kKeys[letter - 'a'];
}

// Writes a misspelling of text[at], a letter: swapped with the next letter, dropped, doubled, or an adjacent
// key. Returns the number of characters of `text` that it replaces.
size_t misspell(std::string_view text, size_t at, TextDraws& d, std::string& out) {
  const char c = text[at];
  const bool letter_follows = at + 1 < text.size() && is_ascii_letter(text[at + 1]);
  const size_t kind = d.below(4);
  if (kind == 0 && letter_follows && text[at + 1] != c) {
    out += text[at + 1];
    out += c;
    return 2;
  }
  if (kind <= 1 && letter_follows) return 1;
  if (kind <= 2) {
    out.append(2, c);
    return 1;
  }
  const bool upper = c < 'a';
  const std::string_view keys = adjacent_keys(upper ? static_cast<char>(c - 'A' + 'a') : c);
  const char key = keys[d.below(keys.size())];
  out += upper ? static_cast<char>(key - 'a' + 'A') : key;
  return 1;
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& s : sentences) out += (out.empty() ? "" : " ") + s;
  return out;
}

std::string without_final_punctuation(std::string sentence) {
  while (!sentence.empty() && (sentence.back() == '.' || sentence.back() == '!' || sentence.back() == '?'))
    sentence.pop_back();
  return sentence;
}

// The sentence with a lower-case first letter, unless its first word is I or looks like a name.
std::string lower_start(std::string sentence) {
  const WordsOfText t = WordsOfText::split(sentence);
  if (t.words.empty() || t.words[0] == "I" || t.words[0].starts_with("I'") || !is_capitalized(t.words[0]))
    return sentence;
  const auto& lists = common_entities();
  for (const auto& [kind, names] : lists)
    if (std::find(names.begin(), names.end(), t.words[0]) != names.end()) return sentence;
  sentence[t.between[0].size()] = static_cast<char>(sentence[t.between[0].size()] - 'A' + 'a');
  return sentence;
}

// Whether a sentence may be split into two before this word.
bool begins_clause(const std::string& word) {
  static const std::set<std::string> kWords = {
      "and",  "but",   "because", "while", "so",   "when",  "although", "on", "in",     "at",
      "with", "after", "before",  "under", "near", "which", "where",    "or", "behind", "until"};
  return kWords.contains(lowered_ascii(word));
}

}  // namespace

// Misspells as many letters as the rate requires; all sets of that many letters are equally likely.
std::string add_noise(const std::string& text, double rate, TextDraws& d) {
  size_t letters = static_cast<size_t>(std::count_if(text.begin(), text.end(), is_ascii_letter));
  size_t changes_left = letters == 0 ? 0 : change_count(rate, letters);
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (!is_ascii_letter(text[i])) {
      out += text[i++];
      continue;
    }
    size_t used = 1;
    if (changes_left > 0 && d.below(letters) < changes_left)
      used = misspell(text, i, d, out), --changes_left;
    else
      out += text[i];
    letters -= used, i += used;
    changes_left = std::min(changes_left, letters);
  }
  return out;
}

std::string shuffle_sentences(const std::string& text, TextDraws& d) {
  std::vector<std::string> sentences = sentences_of(text);
  if (sentences.size() < 2) {  // a single sentence: shuffle its words; the final punctuation stays
    WordsOfText t = WordsOfText::split(text);
    if (t.words.size() < 2) return text;
    if (!is_content_word(t.words[0])) t.words[0] = lowered_ascii(t.words[0]);
    const std::vector<std::string> before = t.words;
    for (size_t i = t.words.size(); i > 1; --i) std::swap(t.words[i - 1], t.words[d.below(i)]);
    if (t.words == before) std::swap(t.words[0], t.words.back());
    t.words[0] = capitalized(t.words[0]);
    return t.join();
  }
  const std::vector<std::string> before = sentences;
  for (size_t i = sentences.size(); i > 1; --i) std::swap(sentences[i - 1], sentences[d.below(i)]);
  if (sentences == before) std::swap(sentences[0], sentences.back());
  return joined(sentences);
}

std::string split_or_merge(const std::string& text, TextDraws& d) {
  std::vector<std::string> sentences = sentences_of(text);
  if (sentences.empty()) return text;
  if (sentences.size() > 1 && d.uniform() < 0.5) {
    const size_t i = d.below(sentences.size() - 1);
    sentences[i] = without_final_punctuation(sentences[i]) + ", and " + lower_start(sentences[i + 1]);
    sentences.erase(sentences.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return joined(sentences);
  }
  const size_t which = d.below(sentences.size());
  WordsOfText t = WordsOfText::split(sentences[which]);
  std::vector<size_t> places;
  for (size_t i = 2; i + 1 < t.words.size(); ++i)
    if (begins_clause(t.words[i])) places.push_back(i);
  if (places.empty()) return text;
  const size_t at = places[d.below(places.size())];
  const std::string conjunction = lowered_ascii(t.words[at]);
  t.between[at] = ". ";
  t.words[at] = capitalized(t.words[at]);
  if (conjunction == "and" || conjunction == "or") {
    t.remove(at);
    t.words[at] = capitalized(t.words[at]);
  }
  sentences[which] = t.join();
  return joined(sentences);
}

std::string fool_classifier(const std::string& text, const std::string& label, double rate,
                            const AugmentResources& r, TextDraws& d) {
  const auto& labels = r.classifier->labels();
  const auto label_index =
      static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  if (label_index == labels.size()) return text;
  const auto score = [&](const WordsOfText& t) { return r.classifier->classify(t.join()); };
  constexpr size_t kMaxWords = 1000;  // every word is tried
  WordsOfText t = WordsOfText::split(text);
  if (t.words.empty() || t.words.size() > kMaxWords) return text;
  const auto original = score(t);
  if (original.label != label_index) return text;
  // The importance of a word: how much the score of the label falls without it.
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < t.words.size(); ++i) {
    WordsOfText without = t;
    without.words[i].clear();
    order.emplace_back(score(without).scores[label_index], i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t changes_left = change_count(rate, t.words.size());
  double lowest = original.scores[label_index];
  for (const auto& [importance, i] : order) {
    if (changes_left == 0) break;
    std::vector<std::string> replacements;
    if (r.synonyms && is_content_word(t.words[i])) replacements = r.synonyms(lowered_ascii(t.words[i]));
    if (!t.words[i].empty() && is_ascii_letter(t.words[i][0])) {
      size_t at = d.below(t.words[i].size());
      if (!is_ascii_letter(t.words[i][at])) at = 0;
      std::string misspelled = t.words[i].substr(0, at);
      const size_t used = misspell(t.words[i], at, d, misspelled);
      replacements.push_back(misspelled + t.words[i].substr(at + used));
    }
    std::optional<WordsOfText> best;
    for (const std::string& other : replacements) {
      WordsOfText changed = t;
      changed.words[i] = in_case_of(other, t.words[i]);
      const auto answer = score(changed);
      if (answer.label != label_index) return changed.join();
      if (answer.scores[label_index] < lowest) lowest = answer.scores[label_index], best = std::move(changed);
    }
    if (best) t = std::move(*best), --changes_left;
  }
  return text;
}

}  // namespace makar
