#include "eval/perturb.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "base/nearest.h"
#include "base/quote.h"
#include "base/rng.h"

namespace makar {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lower(std::string text) {
  for (char& c : text) c = lower(c);
  return text;
}

// `word` with the case of `like`: all capitals, a capital first, or unchanged.
std::string with_case(std::string word, const std::string& like) {
  const auto upper = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
  const bool all = like.size() > 1 &&
                   std::all_of(like.begin(), like.end(), [&](char c) { return !is_letter(c) || upper(c); });
  for (size_t i = 0; i < word.size(); ++i)
    if (all || (i == 0 && upper(like[0])))
      word[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[i])));
  return word;
}

// A pair of words that replace each other.
using WordPair = std::pair<const char*, const char*>;
using WordMap = std::map<std::string, std::string>;

template <size_t N>
WordMap both_ways(const WordPair (&pairs)[N]) {
  WordMap out;
  for (const auto& [a, b] : pairs) out.emplace(a, b), out.emplace(b, a);
  return out;
}

const WordMap& contractions() {
  static constexpr WordPair kPairs[] = {
      {"do not", "don't"},     {"does not", "doesn't"},   {"did not", "didn't"},
      {"is not", "isn't"},     {"are not", "aren't"},     {"was not", "wasn't"},
      {"were not", "weren't"}, {"cannot", "can't"},       {"could not", "couldn't"},
      {"will not", "won't"},   {"would not", "wouldn't"}, {"should not", "shouldn't"},
      {"has not", "hasn't"},   {"have not", "haven't"},   {"had not", "hadn't"},
      {"it is", "it's"},       {"that is", "that's"},     {"what is", "what's"},
      {"who is", "who's"},     {"there is", "there's"},   {"i am", "i'm"},
      {"you are", "you're"},   {"we are", "we're"},       {"they are", "they're"},
      {"i have", "i've"},      {"you have", "you've"},    {"we have", "we've"},
      {"they have", "they've"}};
  static const WordMap map = both_ways(kPairs);
  return map;
}

const WordMap& synonyms() {
  static constexpr WordPair kPairs[] = {
      {"begin", "start"},     {"begins", "starts"},    {"often", "frequently"}, {"choose", "select"},
      {"buy", "purchase"},    {"buys", "purchases"},   {"bought", "purchased"}, {"help", "assist"},
      {"helps", "assists"},   {"need", "require"},     {"needs", "requires"},   {"kids", "children"},
      {"happy", "glad"},      {"sad", "unhappy"},      {"many", "numerous"},    {"maybe", "perhaps"},
      {"mainly", "mostly"},   {"almost", "nearly"},    {"movie", "film"},       {"movies", "films"},
      {"car", "automobile"},  {"cars", "automobiles"}, {"sick", "ill"},         {"rich", "wealthy"},
      {"smart", "clever"},    {"happen", "occur"},     {"happens", "occurs"},   {"happened", "occurred"},
      {"wrong", "incorrect"}, {"quickly", "rapidly"},  {"big", "large"}};
  // The words on the right have other meanings too.
  static constexpr WordPair kOneWay[] = {
      {"correct", "right"},     {"small", "little"},   {"quick", "fast"},
      {"hard", "difficult"},    {"easy", "simple"},    {"entire", "whole"},
      {"enough", "sufficient"}, {"job", "occupation"}, {"shows", "displays"}};
  static const WordMap map = [] {
    WordMap out = both_ways(kPairs);
    out.insert(std::begin(kOneWay), std::end(kOneWay));
    return out;
  }();
  return map;
}

// Words for women, each with the corresponding word for men.
constexpr WordPair kGenderPairs[] = {{"she", "he"},
                                     {"herself", "himself"},
                                     {"woman", "man"},
                                     {"women", "men"},
                                     {"girl", "boy"},
                                     {"girls", "boys"},
                                     {"mother", "father"},
                                     {"mothers", "fathers"},
                                     {"mom", "dad"},
                                     {"daughter", "son"},
                                     {"daughters", "sons"},
                                     {"sister", "brother"},
                                     {"sisters", "brothers"},
                                     {"wife", "husband"},
                                     {"wives", "husbands"},
                                     {"aunt", "uncle"},
                                     {"niece", "nephew"},
                                     {"lady", "gentleman"},
                                     {"ladies", "gentlemen"},
                                     {"queen", "king"},
                                     {"princess", "prince"},
                                     {"grandmother", "grandfather"},
                                     {"grandma", "grandpa"},
                                     {"female", "male"},
                                     {"females", "males"},
                                     {"mrs", "mr"},
                                     {"girlfriend", "boyfriend"},
                                     {"actress", "actor"},
                                     {"waitress", "waiter"},
                                     {"bride", "groom"},
                                     {"widow", "widower"},
                                     {"madam", "sir"}};

const WordMap& gender_words() {
  static const WordMap map = both_ways(kGenderPairs);
  return map;
}

const WordMap& first_names() {
  static constexpr WordPair kPairs[] = {
      {"emily", "lakisha"},  {"greg", "jamal"},      {"anne", "latoya"},   {"brad", "darnell"},
      {"claire", "ebony"},   {"jake", "tyrone"},     {"molly", "aisha"},   {"connor", "hakim"},
      {"james", "mohammed"}, {"mary", "fatima"},     {"john", "wei"},      {"sarah", "mei"},
      {"michael", "jose"},   {"linda", "guadalupe"}, {"robert", "rajesh"}, {"susan", "priya"},
      {"david", "hiroshi"},  {"laura", "yuki"},      {"thomas", "kwame"},  {"karen", "amina"},
      {"tom", "omar"},       {"jane", "leila"},      {"peter", "ivan"},    {"alice", "olga"},
      {"bob", "ahmed"},      {"lisa", "rosa"},       {"mark", "diego"},    {"anna", "ngozi"}};
  static const WordMap map = both_ways(kPairs);
  return map;
}

// The end of the word that starts at `from`: letters, with apostrophes inside.
size_t word_end(std::string_view text, size_t from) {
  while (from < text.size() && (is_letter(text[from]) ||
                                (text[from] == '\'' && from + 1 < text.size() && is_letter(text[from + 1]))))
    ++from;
  return from;
}

// Calls `change` with each word (letters, with apostrophes inside), its number and the text after it, and
// replaces the word by the result.
std::string map_words(const std::string& text,
                      const std::function<std::string(const std::string& word, size_t number,
                                                      std::string_view after)>& change) {
  std::string out;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    if (!is_letter(text[at])) {
      out += text[at++];
      continue;
    }
    const size_t end = word_end(text, at);
    out += change(text.substr(at, end - at), number++, std::string_view(text).substr(end));
    at = end;
  }
  return out;
}

std::string replace_words(const std::string& text, const WordMap& map) {
  return map_words(text, [&](const std::string& word, size_t, std::string_view) {
    const auto found = map.find(lower(word));
    return found == map.end() ? word : with_case(found->second, word);
  });
}

// Contracts "do not" and expands "don't". Two words before punctuation are unchanged: "as it is." is not "as
// it's."
std::string replace_contractions(const std::string& text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    if (!is_letter(text[at]) || (at > 0 && (is_letter(text[at - 1]) || text[at - 1] == '\''))) {
      out += text[at++];
      continue;
    }
    const size_t end = word_end(text, at);
    size_t second = end;
    if (end + 1 < text.size() && text[end] == ' ' && is_letter(text[end + 1]))
      second = word_end(text, end + 1);
    size_t consumed = 0;
    for (const size_t stop : {second, end}) {
      const std::string phrase = text.substr(at, stop - at);
      const auto found = contractions().find(lower(phrase));
      const bool before_punctuation = stop < text.size() && text[stop] != ' ';
      if (found == contractions().end() || (stop == second && second != end && before_punctuation)) continue;
      out += with_case(found->second, phrase.substr(0, 1) + lower(phrase.substr(1)));
      consumed = stop - at;
      break;
    }
    if (consumed == 0) out += text.substr(at, end - at), consumed = end - at;
    at += consumed;
  }
  return out;
}

// Whether a word follows that may be a noun: "her" and "his" before it are possessives.
bool followed_by_noun(std::string_view after) {
  if (after.size() < 2 || after[0] != ' ' || !is_letter(after[1])) return false;
  std::string next;
  for (size_t i = 1; i < after.size() && is_letter(after[i]); ++i) next += lower(after[i]);
  static constexpr std::string_view kNotNouns[] = {
      "and",  "or",  "but",  "to",      "at",  "in",   "on",    "for",   "from",  "with",  "by",  "that",
      "when", "who", "as",   "because", "was", "is",   "if",    "while", "the",   "a",     "an",  "his",
      "her",  "my",  "your", "their",   "our", "this", "these", "some",  "any",   "it",    "he",  "she",
      "they", "we",  "you",  "i",       "not", "what", "how",   "where", "again", "there", "here"};
  return std::find(std::begin(kNotNouns), std::end(kNotNouns), next) == std::end(kNotNouns);
}

std::string swap_gender(const std::string& text) {
  return map_words(text, [](const std::string& word, size_t, std::string_view after) {
    const std::string plain = lower(word);
    // "her" is both "his" and "him", and "his" both "her" and "hers".
    if (plain == "her") return with_case(followed_by_noun(after) ? "his" : "him", word);
    if (plain == "his") return with_case(followed_by_noun(after) ? "her" : "hers", word);
    if (plain == "him") return with_case("her", word);
    if (plain == "hers") return with_case("his", word);
    const auto found = gender_words().find(plain);
    return found == gender_words().end() ? word : with_case(found->second, word);
  });
}

std::string misspelt(const std::string& word, const Rng& rng, uint64_t draw) {
  static constexpr std::string_view kKeyboardRows[] = {"qwertyuiop", "asdfghjkl", "zxcvbnm"};
  std::string out = word;
  const auto at = 1 + static_cast<size_t>(rng.uniform_double(draw) * static_cast<double>(word.size() - 2));
  const auto kind = static_cast<int>(rng.uniform_double(draw + 1) * 4);
  if (kind == 0) {
    std::swap(out[at], out[at + 1]);
  } else if (kind == 1) {
    out.erase(at, 1);
  } else if (kind == 2) {
    out.insert(at, 1, out[at]);
  } else {
    for (const std::string_view row : kKeyboardRows) {
      const size_t key = row.find(lower(out[at]));
      if (key != std::string_view::npos) out[at] = row[key + 1 < row.size() ? key + 1 : key - 1];
    }
  }
  return out;
}

std::string with_typos(const std::string& text, uint64_t seed) {
  constexpr uint64_t kStream = 0x7970;  // few-shot examples use the document's index
  constexpr double kTypoRate = 0.125;   // of the words
  constexpr uint64_t kDrawsPerWord = 4;
  const Rng rng(seed, Purpose::kShuffle, kStream);
  return map_words(text, [&](const std::string& word, size_t number, std::string_view after) {
    const uint64_t draw = static_cast<uint64_t>(number) * kDrawsPerWord;
    if (word.size() < 4 || word.find('\'') != std::string::npos || after.starts_with(':') ||
        rng.uniform_double(draw) >= kTypoRate)
      return word;
    return misspelt(word, rng, draw + 1);
  });
}

}  // namespace

std::vector<std::string> robustness_perturbations() {
  return {"typos", "lowercase", "contractions", "synonyms"};
}
std::vector<std::string> fairness_perturbations() { return {"gender", "names"}; }
std::vector<std::string> perturbations() {
  auto out = robustness_perturbations();
  for (std::string& one : fairness_perturbations()) out.push_back(std::move(one));
  return out;
}
bool perturbs_answers(const std::string& kind) { return kind == "gender" || kind == "names"; }

Status check_perturbation(const std::string& kind) {
  const auto known = perturbations();
  if (kind.empty() || std::find(known.begin(), known.end(), kind) != known.end()) return Done{};
  return error_at("--perturb", "unknown perturbation {}{}; expected {}", quote(kind),
                  did_you_mean(kind, known), fmt::join(known, ", "));
}

std::string perturb(const std::string& text, const std::string& kind, uint64_t seed) {
  if (kind == "typos") return with_typos(text, seed);
  if (kind == "lowercase") return lower(text);
  if (kind == "contractions") return replace_contractions(text);
  if (kind == "synonyms") return replace_words(text, synonyms());
  if (kind == "gender") return swap_gender(text);
  if (kind == "names") return replace_words(text, first_names());
  return text;
}

GenderWords count_gender_words(const std::string& text) {
  GenderWords out;
  map_words(text, [&](const std::string& word, size_t, std::string_view) {
    const std::string plain = lower(word);
    out.female += plain == "her" || plain == "hers";
    out.male += plain == "his" || plain == "him";
    for (const auto& [female, male] : kGenderPairs) out.female += plain == female, out.male += plain == male;
    return word;
  });
  return out;
}

}  // namespace makar
