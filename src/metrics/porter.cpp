#include "metrics/porter.h"

#include <span>
#include <unordered_map>

#include "base/utf8.h"

namespace makar {
namespace {

using Codes = std::u32string;

bool is_consonant(const Codes& word, size_t i) {
  // A y is a consonant at the start and after a vowel: the run of y before it decides.
  size_t run = 0;
  while (word[i - run] == U'y' && run < i) ++run;
  const char32_t first = word[i - run];
  const bool consonant = first != U'a' && first != U'e' && first != U'i' && first != U'o' && first != U'u';
  return run % 2 == 0 ? consonant : !consonant;
}

// m: how often a consonant follows a vowel.
int measure(const Codes& stem) {
  int m = 0;
  bool vowel = false, consonant = false;  // of the previous character
  for (size_t i = 0; i < stem.size(); ++i) {
    // A y after a consonant is a vowel.
    consonant = stem[i] == U'y' ? i == 0 || !consonant : is_consonant(stem, i);
    if (consonant && vowel) ++m;
    vowel = !consonant;
  }
  return m;
}

// A y after the first character is a vowel here: without other vowels, a consonant precedes it.
bool has_vowel(const Codes& stem) {
  return stem.find_first_of(U"aeiou") != Codes::npos || stem.find(U'y', 1) != Codes::npos;
}

bool double_consonant(const Codes& w) {
  return w.size() >= 2 && w.back() == w[w.size() - 2] && is_consonant(w, w.size() - 1);
}

// Consonant, vowel, consonant other than w, x, y; or a vowel and a consonant alone.
bool ends_cvc(const Codes& w) {
  const size_t n = w.size();
  if (n == 2) return !is_consonant(w, 0) && is_consonant(w, 1);
  return n >= 3 && is_consonant(w, n - 3) && !is_consonant(w, n - 2) && is_consonant(w, n - 1) &&
         w[n - 1] != U'w' && w[n - 1] != U'x' && w[n - 1] != U'y';
}

struct Rule {
  std::u32string_view suffix, replacement;
};

// Applies the first rule whose suffix fits, if m of the stem is above `min`; no other rule is tried.
Codes apply(const Codes& word, std::span<const Rule> rules, int min) {
  for (const Rule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    Codes stem = word.substr(0, word.size() - rule.suffix.size());
    bool fits = measure(stem) > min;
    if (rule.suffix == U"ion") fits = fits && (stem.back() == U's' || stem.back() == U't');
    if (rule.suffix == U"logi") fits = measure(word.substr(0, word.size() - 3)) > min;
    return fits ? stem.append(rule.replacement) : word;
  }
  return word;
}

Codes plural(const Codes& w) {
  if (w.ends_with(U"ies")) return w.substr(0, w.size() - (w.size() == 4 ? 1 : 2));
  if (w.ends_with(U"sses")) return w.substr(0, w.size() - 2);
  if (w.ends_with(U"ss") || !w.ends_with(U"s")) return w;
  return w.substr(0, w.size() - 1);
}

Codes past_and_participle(const Codes& w) {
  if (w.ends_with(U"ied")) return w.substr(0, w.size() - (w.size() == 4 ? 1 : 2));
  if (w.ends_with(U"eed")) return measure(w.substr(0, w.size() - 3)) > 0 ? w.substr(0, w.size() - 1) : w;
  Codes stem;
  for (const std::u32string_view suffix : {U"ed", U"ing"})
    if (stem.empty() && w.ends_with(suffix) && has_vowel(w.substr(0, w.size() - suffix.size())))
      stem = w.substr(0, w.size() - suffix.size());
  if (stem.empty()) return w;
  if (stem.ends_with(U"at") || stem.ends_with(U"bl") || stem.ends_with(U"iz")) return stem + U"e";
  if (double_consonant(stem)) {
    const char32_t last = stem.back();
    if (last != U'l' && last != U's' && last != U'z') stem.pop_back();
    return stem;
  }
  return measure(stem) == 1 && ends_cvc(stem) ? stem + U"e" : stem;
}

constexpr Rule kStep2[] = {
    {U"ational", U"ate"}, {U"tional", U"tion"}, {U"enci", U"ence"}, {U"anci", U"ance"}, {U"izer", U"ize"},
    {U"bli", U"ble"},     {U"alli", U"al"},     {U"entli", U"ent"}, {U"eli", U"e"},     {U"ousli", U"ous"},
    {U"ization", U"ize"}, {U"ation", U"ate"},   {U"ator", U"ate"},  {U"alism", U"al"},  {U"iveness", U"ive"},
    {U"fulness", U"ful"}, {U"ousness", U"ous"}, {U"aliti", U"al"},  {U"iviti", U"ive"}, {U"biliti", U"ble"},
    {U"fulli", U"ful"},   {U"logi", U"log"}};
constexpr Rule kStep3[] = {{U"icate", U"ic"}, {U"ative", U""}, {U"alize", U"al"}, {U"iciti", U"ic"},
                           {U"ical", U"ic"},  {U"ful", U""},   {U"ness", U""}};
constexpr Rule kStep4[] = {{U"al", U""},   {U"ance", U""}, {U"ence", U""}, {U"er", U""},    {U"ic", U""},
                           {U"able", U""}, {U"ible", U""}, {U"ant", U""},  {U"ement", U""}, {U"ment", U""},
                           {U"ent", U""},  {U"ion", U""},  {U"ou", U""},   {U"ism", U""},   {U"ate", U""},
                           {U"iti", U""},  {U"ous", U""},  {U"ive", U""},  {U"ize", U""}};

Codes step2(Codes w) {
  while (w.ends_with(U"alli") && measure(w.substr(0, w.size() - 4)) > 0) w.resize(w.size() - 2);
  return apply(w, kStep2, 0);
}

Codes final_letters(Codes w) {
  if (w.ends_with(U"e")) {
    const Codes stem = w.substr(0, w.size() - 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_cvc(stem))) w = stem;
  }
  if (w.ends_with(U"ll") && measure(w.substr(0, w.size() - 1)) > 1) w.pop_back();
  return w;
}

}  // namespace

std::string porter_stem(const std::string& word) {
  static const std::unordered_map<std::string, std::string> kIrregular = {
      {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
      {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
      {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};
  if (const auto found = kIrregular.find(word); found != kIrregular.end()) return found->second;
  Codes w = code_points(word);
  if (w.size() <= 2) return word;
  w = past_and_participle(plural(w));
  if (w.size() > 2 && w.back() == U'y' && is_consonant(w, w.size() - 2)) w.back() = U'i';
  w = final_letters(apply(apply(step2(w), kStep3, 0), kStep4, 1));
  std::string out;
  for (const char32_t c : w) append_utf8(out, c);
  return out;
}

}  // namespace makar
