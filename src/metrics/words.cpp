#include "metrics/words.h"

#include <utility>

#include "base/replace.h"
#include "text/unicode.h"

namespace makar {
namespace {

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_stop(char32_t c) { return c == '.' || c == ','; }
bool is_western_symbol(char32_t c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

using Ranges = std::initializer_list<std::pair<char32_t, char32_t>>;
bool in_ranges(char32_t c, const Ranges& ranges) {
  for (const auto& [first, last] : ranges)
    if (c >= first && c <= last) return true;
  return false;
}
// The characters that sacrebleu's zh tokenizer separates. It names two blocks above U+FFFF but compares with
// U+2001 to U+2A6D instead; published scores depend on that.
bool is_chinese(char32_t c) {
  return in_ranges(c, {{0x2001, 0x2A6D},
                       {0x2E80, 0x2FDF},
                       {0x2FF0, 0x303F},
                       {0x3100, 0x312F},
                       {0x31A0, 0x31EF},
                       {0x3200, 0x4DB5},
                       {0x4E00, 0x9FBB},
                       {0xF900, 0xFA2D},
                       {0xFA30, 0xFA6A},
                       {0xFA70, 0xFAD9},
                       {0xFE10, 0xFE1F},
                       {0xFE30, 0xFE4F},
                       {0xFF00, 0xFFEF}});
}
bool is_asian_punctuation(char32_t c) {
  return in_ranges(c, {{0x3001, 0x3002},
                       {0x3008, 0x3011},
                       {0x3014, 0x301F},
                       {0xFF61, 0xFF65},
                       {0x30FB, 0x30FB},
                       {0xFF01, 0xFF02},
                       {0xFF08, 0xFF09},
                       {0xFF0C, 0xFF0C},
                       {0xFF0E, 0xFF0E},
                       {0xFF1A, 0xFF1B},
                       {0xFF1F, 0xFF1F}});
}
bool is_asian_unit(char32_t c) {  // a word by itself in tercom's Asian mode
  return is_asian_punctuation(c) || in_ranges(c, {{0x2E80, 0x2EFF},
                                                  {0x31C0, 0x31EF},
                                                  {0x3200, 0x4DBF},
                                                  {0x4E00, 0x9FFF},
                                                  {0xF900, 0xFAFF},
                                                  {0xFE30, 0xFE4F}});
}

std::u32string without_entities(std::u32string text) {
  if (text.find('&') == std::u32string::npos) return text;
  text = replace_all(text, U"&quot;", U"\"");
  text = replace_all(text, U"&amp;", U"&");
  text = replace_all(text, U"&lt;", U"<");
  return replace_all(text, U"&gt;", U">");
}

template <class Is>
std::u32string with_spaces_around(const std::u32string& text, const Is& is) {
  std::u32string out;
  for (const char32_t c : text) {
    const bool separate = is(c);
    if (separate) out += U' ';
    out += c;
    if (separate) out += U' ';
  }
  return out;
}

// Inserts spaces around every matching pair of adjacent characters, left to right; matches do not overlap.
template <class First, class Second>
std::u32string with_spaces_in_pairs(const std::u32string& text, const First& first, const Second& second,
                                    bool before, bool after) {
  std::u32string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !first(text[i]) || !second(text[i + 1])) {
      out += text[i];
      continue;
    }
    if (before) out += U' ';
    out += text[i], out += U' ', out += text[++i];
    if (after) out += U' ';
  }
  return out;
}

// Full stops and commas outside of numbers, and dashes after digits.
std::u32string with_spaced_stops(std::u32string text) {
  const auto other = [](char32_t c) { return !is_digit(c); };
  text = with_spaces_in_pairs(text, other, is_stop, false, true);
  text = with_spaces_in_pairs(text, is_stop, other, true, false);
  return with_spaces_in_pairs(
      text, is_digit, [](char32_t c) { return c == '-'; }, false, true);
}

WordList words_of(std::u32string_view text) {
  WordList words;
  std::string word;
  for (const char32_t c : text) {
    if (!is_blank(c)) {
      append_utf8(word, c);
    } else if (!word.empty()) {
      words.push_back(std::move(word)), word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace

bool is_blank(char32_t c) {
  return in_ranges(c, {{0x09, 0x0D},
                       {0x1C, 0x20},
                       {0x85, 0x85},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000}});
}

WordList split_words(std::string_view text) { return words_of(code_points(text)); }

std::string without_end_blanks(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.size;
    if (!is_blank(c.code)) end = at;
  }
  return std::string(text.substr(0, end));
}

std::string lowered(std::string_view text) {
  std::string out;
  for (const char32_t c : code_points(text))
    for (const char32_t lower : lowercase(c)) append_utf8(out, lower);
  return out;
}

WordList characters(std::string_view text) {
  WordList out;
  for (const char32_t c : code_points(text))
    if (!is_blank(c)) out.push_back(utf8(c));
  return out;
}

const char* name(WordSplit split) {
  constexpr const char* kNames[] = {"13a", "intl", "char", "zh", "none"};
  return kNames[static_cast<int>(split)];
}

Result<WordSplit> parse_word_split(const std::string& text, const std::string& place) {
  for (const WordSplit split :
       {WordSplit::k13a, WordSplit::kIntl, WordSplit::kChar, WordSplit::kZh, WordSplit::kNone})
    if (text == name(split)) return split;
  return error_at(place, "expected 13a, intl, char, zh or none, got '{}'", text);
}

WordList split_words(WordSplit split, std::string_view bytes) {
  if (split == WordSplit::kNone) return split_words(bytes);
  if (split == WordSplit::kChar) return characters(bytes);
  std::u32string text = code_points(bytes);
  if (split == WordSplit::kIntl) {
    const auto other = [](char32_t c) { return !in(c, kNumber); };
    const auto punctuation = [](char32_t c) { return in(c, kPunctuation); };
    text = with_spaces_in_pairs(text, other, punctuation, false, true);
    text = with_spaces_in_pairs(text, punctuation, other, true, false);
    return words_of(with_spaces_around(text, [](char32_t c) { return in(c, kSymbol); }));
  }
  if (split == WordSplit::kZh) {
    while (!text.empty() && is_blank(text.back())) text.pop_back();
    text.erase(0, static_cast<size_t>(
                      std::find_if(text.begin(), text.end(), [](char32_t c) { return !is_blank(c); }) -
                      text.begin()));
    text = with_spaces_around(text, is_chinese);
  } else {
    text = replace_all(text, U"<skipped>", U""), text = replace_all(text, U"-\n", U"");
    text = U' ' + without_entities(replace_all(text, U"\n", U" ")) + U' ';
  }
  return words_of(with_spaced_stops(with_spaces_around(text, is_western_symbol)));
}

WordList split_words(const TerText& rules, std::string_view bytes) {
  std::u32string text = code_points(rules.case_sensitive ? std::string(bytes) : lowered(bytes));
  if (rules.normalized) {
    text = replace_all(replace_all(text, U"\n-", U""), U"\n", U" ");
    text = with_spaces_around(U' ' + without_entities(std::move(text)) + U' ', is_western_symbol);
    text = with_spaced_stops(replace_all(text, U"'s ", U" 's "));
    if (rules.asian) text = with_spaces_around(text, is_asian_unit);
  }
  if (rules.no_punctuation)
    std::erase_if(text, [&](char32_t c) {
      return std::u32string_view(U".,?:;!\"()").find(c) != std::u32string_view::npos ||
             (rules.asian && is_asian_punctuation(c));
    });
  return words_of(text);
}

}  // namespace makar
