// Changes of single words.
#include <algorithm>
#include <set>

#include "augment/changes.h"

namespace makar {
namespace {

// Positions of words for which `fits` holds, in a random order.
template <class F>
std::vector<size_t> drawn_positions(const WordsOfText& t, TextDraws& d, F&& fits) {
  std::vector<size_t> out;
  for (size_t i = 0; i < t.words.size(); ++i)
    if (fits(t.words[i])) out.push_back(i);
  for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[d.below(i)]);
  return out;
}

// Replaces up to `rate` of the words by one of their `candidates`, in the same letter case.
std::string replace_words(const std::string& text, double rate, TextDraws& d,
                          const std::function<std::vector<std::string>(const std::string&)>& candidates) {
  WordsOfText t = WordsOfText::split(text);
  size_t left = change_count(rate, t.words.size());
  for (const size_t i : drawn_positions(t, d, is_content_word)) {
    if (left == 0) break;
    const std::string lower = lowered_ascii(t.words[i]);
    std::vector<std::string> replacements = candidates(lower);
    std::erase_if(replacements, [&](const std::string& w) { return lowered_ascii(w) == lower || w.empty(); });
    if (replacements.empty()) continue;
    t.words[i] = in_case_of(replacements[d.below(replacements.size())], t.words[i]);
    --left;
  }
  return t.join();
}

}  // namespace

size_t change_count(double rate, size_t words) {
  return std::max<size_t>(1, static_cast<size_t>(rate * static_cast<double>(words) + 0.5));
}

bool is_content_word(const std::string& word) {
  static const std::set<std::string> kFunctionWords = {
      "a",    "an",   "the",  "and",  "or",    "but",  "if",  "of",    "to",   "in",   "on",   "at",   "by",
      "for",  "with", "from", "as",   "is",    "are",  "was", "were",  "be",   "been", "am",   "it",   "its",
      "he",   "she",  "they", "we",   "you",   "i",    "his", "her",   "my",   "your", "this", "that", "not",
      "no",   "so",   "than", "do",   "does",  "did",  "has", "have",  "had",  "will", "can",  "me",   "him",
      "them", "our",  "who",  "what", "which", "when", "how", "there", "their"};
  return !kFunctionWords.contains(lowered_ascii(word));
}

std::string replace_synonyms(const std::string& text, double rate, const AugmentResources& r, TextDraws& d) {
  return replace_words(text, rate, d, r.synonyms);
}

std::string replace_neighbors(const std::string& text, double rate, const AugmentResources& r, TextDraws& d) {
  return replace_words(text, rate, d, r.neighbors);
}

std::string insert_words(const std::string& text, double rate, const AugmentResources& r, TextDraws& d) {
  WordsOfText t = WordsOfText::split(text);
  if (t.words.empty()) return text;
  const auto places = drawn_positions(t, d, is_content_word);
  if (places.empty()) return text;
  const std::vector<std::string> original_words = t.words;
  for (size_t i = 0; i < change_count(rate, original_words.size()); ++i) {
    std::string word = lowered_ascii(original_words[places[i % places.size()]]);
    if (r.synonyms)
      if (const auto replacements = r.synonyms(word); !replacements.empty())
        word = replacements[d.below(replacements.size())];
    t.insert(1 + d.below(t.words.size()), word);
  }
  return t.join();
}

std::string delete_words(const std::string& text, double rate, TextDraws& d) {
  WordsOfText t = WordsOfText::split(text);
  const bool capital = !t.words.empty() && is_capitalized(t.words[0]);
  for (size_t left = change_count(rate, t.words.size()); left > 0 && t.words.size() > 1; --left)
    t.remove(d.below(t.words.size()));
  if (capital) t.words[0] = capitalized(t.words[0]);
  return t.join();
}

std::string swap_words(const std::string& text, double rate, TextDraws& d) {
  WordsOfText t = WordsOfText::split(text);
  if (t.words.size() < 2) return text;
  const bool capital = is_capitalized(t.words[0]);
  for (size_t left = change_count(rate, t.words.size()); left > 0; --left) {
    const size_t i = d.below(t.words.size() - 1);
    std::swap(t.words[i], t.words[i + 1]);
    if (i == 0 && capital) {
      if (!is_content_word(t.words[1])) t.words[1] = lowered_ascii(t.words[1]);
      t.words[0] = capitalized(t.words[0]);
    }
  }
  return t.join();
}

Result<std::string> replace_in_context(const std::string& text, double rate, const AugmentResources& r,
                                       TextDraws& d) {
  WordsOfText t = WordsOfText::split(text);
  size_t left = change_count(rate, t.words.size());
  for (const size_t i : drawn_positions(t, d, is_content_word)) {
    if (left == 0) break;
    WordsOfText parts = t;
    std::string before = parts.between[0], after = parts.between[i + 1];
    for (size_t j = 0; j < i; ++j) before += parts.words[j] + parts.between[j + 1];
    for (size_t j = i + 1; j < parts.words.size(); ++j) after += parts.words[j] + parts.between[j + 1];
    MAKAR_TRY(std::vector<std::string> replacements, r.masked(before, after));
    std::erase_if(replacements,
                  [&](const std::string& w) { return lowered_ascii(w) == lowered_ascii(t.words[i]); });
    if (replacements.empty()) continue;
    t.words[i] = in_case_of(replacements[d.below(replacements.size())], t.words[i]);
    --left;
  }
  return t.join();
}

std::string replace_entities(const std::string& text, double rate, const AugmentResources& r, TextDraws& d) {
  const auto& lists = r.entities.empty() ? common_entities() : r.entities;
  std::map<std::string, const std::vector<std::string>*> list_of;
  for (const auto& [kind, names] : lists)
    for (const std::string& name : names) list_of.emplace(lowered_ascii(name), &names);
  WordsOfText t = WordsOfText::split(text);
  size_t left = change_count(rate, t.words.size());
  const auto is_number = [](const std::string& w) {
    return !w.empty() && w.size() <= 15 &&
           std::all_of(w.begin(), w.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const auto is_entity = [&](const std::string& w) {
    return is_number(w) || list_of.contains(lowered_ascii(w));
  };
  for (const size_t i : drawn_positions(t, d, is_entity)) {
    if (left == 0) break;
    std::string& word = t.words[i];
    if (is_number(word)) {
      std::string other = word;
      for (size_t c = 0; c < other.size(); ++c)
        other[c] = static_cast<char>('0' + (c == 0 && other.size() > 1 ? 1 + d.below(9) : d.below(10)));
      if (other == word) other.back() = other.back() == '9' ? '8' : static_cast<char>(other.back() + 1);
      word = other;
    } else {
      const std::vector<std::string>& names = *list_of.at(lowered_ascii(word));
      if (names.size() < 2) continue;
      const auto current = static_cast<size_t>(
          std::find_if(names.begin(), names.end(),
                       [&](const std::string& n) { return lowered_ascii(n) == lowered_ascii(word); }) -
          names.begin());
      word = in_case_of(names[(current + 1 + d.below(names.size() - 1)) % names.size()], word);
    }
    --left;
  }
  return t.join();
}

const std::map<std::string, std::vector<std::string>>& common_entities() {
  static const std::map<std::string, std::vector<std::string>> kLists = {
      {"person", {"Alice", "Ben",   "Carla",  "David", "Emma",  "Frank",  "Grace", "Henry",
                  "Irene", "James", "John",   "Kate",  "Laura", "Maria",  "Mary",  "Oscar",
                  "Paul",  "Peter", "Robert", "Sarah", "Tom",   "William"}},
      {"city",
       {"London", "Paris", "Berlin", "Madrid", "Rome", "Vienna", "Boston", "Chicago", "Dublin", "Tokyo",
        "Moscow", "Prague", "Sydney", "Toronto", "Cairo", "Lima", "Oslo"}},
      {"country",
       {"France", "Germany", "Spain", "Italy", "England", "Ireland", "Japan", "China", "India", "Canada",
        "Brazil", "Mexico", "Egypt", "Chile", "Norway", "Russia"}},
      {"company",
       {"Google", "Microsoft", "Amazon", "Apple", "Samsung", "Toyota", "Siemens", "Nokia", "Intel", "Sony"}},
      {"weekday", {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}},
      {"month",
       {"January", "February", "April", "June", "July", "September", "October", "November", "December"}},
      {"animal", {"cat", "dog", "horse", "bird", "rabbit", "fox", "lion", "mouse", "cow", "wolf"}},
      {"colour", {"red", "blue", "green", "yellow", "black", "white", "brown", "grey"}},
  };
  return kLists;
}

}  // namespace makar
