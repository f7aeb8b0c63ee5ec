// Splits a text into sentences.
#include <algorithm>

#include "base/lower_ascii.h"
#include "base/utf8.h"
#include "retrieval/chunker.h"
#include "text/unicode.h"

namespace makar {
namespace {

bool ends_sentence(char32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026; }
bool ends_without_blank(char32_t c) { return c == 0x3002 || c == 0xFF01 || c == 0xFF1F; }
bool closes_quote(char32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == 0x201D || c == 0x2019 || c == 0xBB;
}

// Words that a full stop follows inside a sentence.
bool is_abbreviation(std::string_view word) {
  static constexpr std::string_view kWords[] = {"mr",  "mrs", "ms",  "dr",  "prof", "st",   "vs",     "e.g",
                                                "i.e", "cf",  "fig", "no",  "vol",  "pp",   "approx", "eq",
                                                "jr",  "sr",  "rev", "gen", "col",  "capt", "lt",     "hon"};
  if (word.size() == 1 && ((word[0] >= 'A' && word[0] <= 'Z'))) return true;  // an initial
  const std::string lower = lower_ascii(word.substr(0, 8));
  return word.size() <= 8 && std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords);
}

}  // namespace

std::vector<Span> sentences_of(std::string_view text) {
  std::vector<Span> out;
  size_t begin = 0, word = 0;  // the start of the current word
  const auto end_sentence = [&](size_t end) {
    if (end > begin) out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = word = end;
  };
  const auto skip_blanks = [&](size_t at) {
    while (at < text.size()) {
      const CodePoint c = decode_utf8(text, at);
      if (!is_space(c.code)) break;
      at += c.size;
    }
    return at;
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const size_t after = at + c.size;
    if (ends_sentence(c.code) || ends_without_blank(c.code)) {
      size_t end = after;
      while (end < text.size()) {
        const CodePoint next = decode_utf8(text, end);
        if (!ends_sentence(next.code) && !ends_without_blank(next.code) && !closes_quote(next.code)) break;
        end += next.size;
      }
      const bool blank = end >= text.size() || is_space(decode_utf8(text, end).code);
      const bool abbreviation =
          c.code == '.' && end == after && is_abbreviation(text.substr(word, at - word));
      if (ends_without_blank(c.code) || (blank && !abbreviation)) {
        at = skip_blanks(end);
        end_sentence(at);
        continue;
      }
      at = end;
      continue;
    }
    if (c.code == '\n') {
      const size_t next = skip_blanks(after);
      const std::string_view blanks = text.substr(after, next - after);
      if (blanks.find('\n') != std::string_view::npos) {  // an empty line
        at = next;
        end_sentence(at);
        continue;
      }
    }
    if (is_space(c.code) || c.code == '(' || c.code == '"') word = after;
    at = after;
  }
  end_sentence(text.size());
  return out;
}

}  // namespace makar
