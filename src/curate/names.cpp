#include "curate/names.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace makar {
namespace {

struct Word {
  size_t begin = 0, end = 0;
};

bool is_name_letter(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u >= 0x80 || std::isalpha(u);
}

// Words of letters, with apostrophes and hyphens between letters.
std::vector<Word> words_in(std::string_view text) {
  std::vector<Word> out;
  for (size_t i = 0; i < text.size();) {
    if (!is_name_letter(text[i])) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() &&
           (is_name_letter(text[end]) || ((text[end] == '\'' || text[end] == '-') && end + 1 < text.size() &&
                                          is_name_letter(text[end + 1]))))
      ++end;
    out.push_back({i, end});
    i = end;
  }
  return out;
}

bool is_title(std::string_view word) {
  static const std::set<std::string, std::less<>> kTitles = {"Mr",   "Mrs",       "Ms",  "Miss", "Dr",
                                                             "Prof", "Professor", "Sir", "Herr", "Frau"};
  return kTitles.contains(word);
}

bool is_first_name(std::string_view word) {
  static const std::set<std::string, std::less<>> kNames = {
      "Alice",    "Andrew",  "Anna",   "Anne",   "Anthony", "Barbara",  "Ben",       "Brian",   "Carol",
      "Charles",  "Chris",   "Daniel", "David",  "Donald",  "Edward",   "Elizabeth", "Emily",   "Emma",
      "Eric",     "Frank",   "George", "Helen",  "Henry",   "James",    "Jane",      "Jason",   "Jeff",
      "Jennifer", "Jessica", "Joe",    "John",   "Joseph",  "Karen",    "Kate",      "Kevin",   "Laura",
      "Linda",    "Lisa",    "Lucy",   "Maria",  "Mark",    "Martin",   "Mary",      "Matthew", "Michael",
      "Michelle", "Mike",    "Nancy",  "Nicole", "Oliver",  "Patricia", "Paul",      "Peter",   "Richard",
      "Robert",   "Ruth",    "Sarah",  "Scott",  "Sophie",  "Stephen",  "Steven",    "Susan",   "Thomas",
      "Tom",      "William"};
  return kNames.contains(word);
}

bool is_person(const std::string& tag) {
  std::string lower;
  for (const char c : tag) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower == "per" || lower == "person" || lower.ends_with("-per") || lower.ends_with("-person");
}

}  // namespace

NamesResult remove_names(std::string_view text, const HmmTagger* tagger) {
  const std::vector<Word> words = words_in(text);
  const auto word = [&](size_t i) { return text.substr(words[i].begin, words[i].end - words[i].begin); };
  const auto is_capital = [&](size_t i) {
    const std::string_view w = word(i);
    return w.size() > 1 && w[0] >= 'A' && w[0] <= 'Z' &&
           (std::islower(static_cast<unsigned char>(w[1])) || w[1] == '\'');  // O'Brien
  };
  // Whether word i follows word i - 1 after one blank or, if `stop` is set, after a full stop and a blank.
  const auto follows = [&](size_t i, bool stop) {
    const std::string_view between = text.substr(words[i - 1].end, words[i].begin - words[i - 1].end);
    return between == " " || (stop && between == ". ");
  };
  std::vector<bool> is_name(words.size());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const bool title = is_title(word(i));
    if (!title && !is_first_name(word(i))) continue;
    size_t next = i + 1;
    while (next < words.size() && next <= i + 3 && is_capital(next) && follows(next, title && next == i + 1))
      ++next;
    if (next == i + 1) continue;
    for (size_t j = title ? i + 1 : i; j < next; ++j) is_name[j] = true;
  }
  if (tagger && !words.empty()) {
    constexpr size_t kWordsPerChunk = 200;
    for (size_t first = 0; first < words.size(); first += kWordsPerChunk) {
      std::vector<std::string> chunk;
      for (size_t i = first; i < std::min(first + kWordsPerChunk, words.size()); ++i)
        chunk.emplace_back(word(i));
      const auto tags = tagger->tag(chunk);
      for (size_t i = 0; i < tags.size(); ++i)
        if (is_person(tags[i])) is_name[first + i] = true;
    }
  }
  NamesResult out;
  size_t done = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!is_name[i]) continue;
    size_t last = i;
    while (last + 1 < words.size() && is_name[last + 1] && follows(last + 1, false)) ++last;
    out.text.append(text.substr(done, words[i].begin - done)).append("[NAME]");
    ++out.found, done = words[last].end, i = last;
  }
  out.text.append(text.substr(done));
  return out;
}

}  // namespace makar
