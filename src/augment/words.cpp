#include "augment/words.h"

#include <algorithm>
#include <cctype>

namespace makar {
namespace {

bool is_word_byte(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u >= 0x80 || std::isalnum(u);
}
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

WordsOfText WordsOfText::split(std::string_view text) {
  WordsOfText out;
  out.between.emplace_back();
  for (size_t i = 0; i < text.size();) {
    if (!is_word_byte(text[i])) {
      out.between.back() += text[i++];
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() &&
           (is_word_byte(text[end]) || ((text[end] == '\'' || text[end] == '-') && end + 1 < text.size() &&
                                        is_word_byte(text[end + 1]))))
      ++end;
    out.words.emplace_back(text.substr(i, end - i));
    out.between.emplace_back();
    i = end;
  }
  return out;
}

std::string WordsOfText::join() const {
  std::string out = between[0];
  for (size_t i = 0; i < words.size(); ++i) out += words[i] + between[i + 1];
  return out;
}

void WordsOfText::insert(size_t at, std::string word) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  words.insert(words.begin() + place, std::move(word));
  if (at + 1 == words.size() && at > 0)  // at the end: before the final punctuation
    between.insert(between.begin() + place, " ");
  else
    between.insert(between.begin() + place + 1, " ");
}

void WordsOfText::remove(size_t at) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  const bool last = at + 1 == words.size();
  words.erase(words.begin() + place);
  between.erase(between.begin() + (last ? place : place + 1));
}

bool is_capitalized(std::string_view word) {
  return !word.empty() && is_upper(word[0]) && std::none_of(word.begin() + 1, word.end(), is_upper);
}

std::string capitalized(std::string word) {
  if (!word.empty() && is_lower(word[0])) word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

std::string lowered_ascii(std::string word) {
  for (char& c : word)
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  return word;
}

std::string in_case_of(std::string word, std::string_view like) {
  const bool all_upper = like.size() > 1 && std::none_of(like.begin(), like.end(), is_lower) &&
                         std::any_of(like.begin(), like.end(), is_upper);
  if (all_upper) {
    for (char& c : word)
      if (is_lower(c)) c = static_cast<char>(c - 'a' + 'A');
    return word;
  }
  return is_capitalized(like) ? capitalized(std::move(word)) : word;
}

std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> out;
  size_t begin = 0;
  const auto add = [&](size_t end) {
    while (begin < end && is_blank(text[begin])) ++begin;
    size_t last = end;
    while (last > begin && is_blank(text[last - 1])) --last;
    if (last > begin) out.emplace_back(text.substr(begin, last - begin));
    begin = end;
  };
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    if (text[i] != '.' && text[i] != '!' && text[i] != '?') continue;
    size_t next = i + 1;
    while (next < text.size() && is_blank(text[next])) ++next;
    if (next == i + 1 || next == text.size()) continue;
    const char c = text[next];
    if (is_upper(c) || (c >= '0' && c <= '9') || c == '"' || c == '\'') add(i + 1);
  }
  add(text.size());
  return out;
}

}  // namespace makar
