// Hand-written scanners for the patterns that nearly all byte-level tokenizers use. Each takes valid text and
// returns the end of the word that starts at `p`; tests compare them with PCRE2 on random text.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/lower_ascii.h"
#include "text/unicode.h"

namespace makar {

// The character classes of the patterns.
enum CharClass : uint8_t {
  kIsLetter = 1,     // \p{L}
  kIsNumber = 2,     // \p{N}
  kIsSpace = 4,      // \s
  kIsUpper = 8,      // \p{Lu}\p{Lt}
  kIsLower = 16,     // \p{Ll}
  kIsCaseless = 32,  // \p{Lm}\p{Lo}\p{M}
  kIsBreak = 64,     // \r \n
};

// Classes of all code points, in pages of 256 code points; equal pages are stored once.
struct CharClasses {
  std::array<uint8_t, 256> ascii{};  // for single bytes; bytes from 0x80 on are 0 and must be decoded
  std::vector<uint16_t> page_of;
  std::vector<std::array<uint8_t, 256>> pages;
  uint8_t of(char32_t code) const { return pages[page_of[code >> 8]][code & 0xFF]; }
  static const CharClasses& get();
};

class Scanner {
 public:
  enum class Kind { kNone, kGpt2, kCl100k, kQwen2, kO200k };
  // The kind for a pattern as written in files; kNone for other patterns.
  static Kind kind_of(const std::string& pattern);

  Scanner(const char* end) : end_(end), classes_(CharClasses::get()) {}
  template <Kind kKind>
  const char* next(const char* p) const;

 private:
  struct Char {
    uint8_t classes;
    uint32_t size;
  };
  Char at(const char* p) const {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 0x80) return {classes_.ascii[byte], 1};
    size_t size = 0;
    const char32_t code = next_code({p, 4}, size);
    return {classes_.of(code), static_cast<uint32_t>(size)};
  }
  // Skips all characters with a class in `mask`.
  const char* skip_class(const char* p, uint8_t mask) const {
    while (p < end_) {
      const auto byte = static_cast<unsigned char>(*p);
      if (byte < 0x80) {
        if (!(classes_.ascii[byte] & mask)) return p;
        ++p;
        continue;
      }
      const Char c = at(p);
      if (!(c.classes & mask)) return p;
      p += c.size;
    }
    return p;
  }
  // Skips letters, eight ASCII bytes at a time: a byte is a letter when its lower case is from a to z.
  const char* skip_letters(const char* p) const {
    constexpr uint64_t kOnes = 0x0101010101010101u;
    while (end_ - p >= 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      const uint64_t low = (word | 0x20 * kOnes) & 0x7F * kOnes;
      const uint64_t from_a = low + (0x80 - 'a') * kOnes, past_z = low + (0x80 - 'z' - 1) * kOnes;
      const uint64_t others = ~((from_a ^ past_z) & ~word) & 0x80 * kOnes;
      if (others) {
        p += __builtin_ctzll(others) >> 3;
        return static_cast<unsigned char>(*p) < 0x80 ? p : skip_class(p, kIsLetter);
      }
      p += 8;
    }
    return skip_class(p, kIsLetter);
  }
  // Skips characters that are neither white space nor letters nor numbers.
  const char* skip_other(const char* p) const {
    constexpr uint8_t kMask = kIsSpace | kIsLetter | kIsNumber;
    while (p < end_) {
      const Char c = at(p);
      if (c.classes & kMask) return p;
      p += c.size;
    }
    return p;
  }
  const char* skip_digits(const char* p, int max) const {
    for (int i = 0; i < max && p < end_; ++i) {
      const Char c = at(p);
      if (!(c.classes & kIsNumber)) break;
      p += c.size;
    }
    return p;
  }
  const char* skip_contraction(const char* p, bool any_case) const;
  const char* skip_spaces(const char* p, bool breaks) const;
  const char* cased_word(const char* p) const;

  const char* end_;
  const CharClasses& classes_;
};

// Skips 's 't 're 've 'm 'll 'd after an apostrophe at p; returns p when there is none.
inline const char* Scanner::skip_contraction(const char* p, bool any_case) const {
  if (p >= end_ || *p != '\'' || end_ - p < 2) return p;
  const auto low = [&](char c) { return any_case ? lower_ascii(c) : c; };
  const char a = low(p[1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (end_ - p < 3) return p;
  if (any_case && p[1] == '\xC5' && p[2] == '\xBF') return p + 3;  // the long s folds to s
  const char b = low(p[2]);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
  return p;
}

// Skips white space at p: with `breaks`, up to the last line break if there is one; else all but the last
// character before a word.
inline const char* Scanner::skip_spaces(const char* p, bool breaks) const {
  const char* last = p;  // the start of the last character
  const char* after_break = nullptr;
  const char* q = p;
  while (q < end_) {
    const Char c = at(q);
    if (!(c.classes & kIsSpace)) break;
    last = q;
    q += c.size;
    if (c.classes & kIsBreak) after_break = q;
  }
  if (breaks && after_break) return after_break;
  return q == end_ || last == p ? q : last;
}

template <>
inline const char* Scanner::next<Scanner::Kind::kGpt2>(const char* p) const {
  if (*p == '\'') {
    const char* q = skip_contraction(p, false);
    if (q != p) return q;
  }
  const char* word = p + (*p == ' ' && p + 1 < end_);
  const Char c = at(word);
  if (c.classes & kIsLetter) return skip_letters(word + c.size);
  if (c.classes & kIsNumber) return skip_class(word + c.size, kIsNumber);
  if (!(c.classes & kIsSpace)) return skip_other(word + c.size);
  return skip_spaces(p, false);
}

template <>
inline const char* Scanner::next<Scanner::Kind::kCl100k>(const char* p) const {
  const Char c = at(p);
  if (c.classes & kIsLetter) return skip_letters(p + c.size);
  if (c.classes & kIsNumber) return skip_digits(p, 3);
  if (*p == '\'') {
    const char* q = skip_contraction(p, true);
    if (q != p) return q;
  }
  const char* after = p + c.size;
  if (after < end_ && !(c.classes & kIsBreak)) {
    const Char d = at(after);
    if (d.classes & kIsLetter) return skip_letters(after + d.size);
    if (*p == ' ' && !(d.classes & (kIsSpace | kIsNumber))) return skip_class(skip_other(after), kIsBreak);
  }
  if (!(c.classes & kIsSpace)) return skip_class(skip_other(p), kIsBreak);
  return skip_spaces(p, true);
}

template <>
inline const char* Scanner::next<Scanner::Kind::kQwen2>(const char* p) const {
  const Char c = at(p);
  if (c.classes & kIsNumber) return p + c.size;
  return next<Kind::kCl100k>(p);
}

// Both word patterns of o200k from p on, without the leading character; returns p when neither matches.
inline const char* Scanner::cased_word(const char* p) const {
  const char* upper_end = p;     // end of [Lu Lt Lm Lo M]*
  const char* caseless_end = p;  // after the last Lm, Lo or M in it
  while (upper_end < end_) {
    const Char c = at(upper_end);
    if (!(c.classes & (kIsUpper | kIsCaseless))) break;
    upper_end += c.size;
    if (c.classes & kIsCaseless) caseless_end = upper_end;
  }
  const char* lower_end = skip_class(upper_end, kIsLower | kIsCaseless);
  if (lower_end > upper_end) return lower_end;
  return caseless_end;
}

template <>
inline const char* Scanner::next<Scanner::Kind::kO200k>(const char* p) const {
  const Char c = at(p);
  const bool prefix = !(c.classes & (kIsBreak | kIsLetter | kIsNumber)) && p + c.size < end_;
  const char* q = p;
  if (prefix) q = cased_word(p + c.size) > p + c.size ? cased_word(p + c.size) : p;
  if (q == p && !(c.classes & (kIsNumber | kIsSpace))) q = cased_word(p);
  if (q == p) {  // capitals only
    const char* start = prefix ? p + c.size : p;
    const char* upper = skip_class(start, kIsUpper);
    if (upper > start) q = upper;
  }
  if (q > p) return skip_contraction(q, true);
  if (c.classes & kIsNumber) return skip_digits(p, 3);
  const auto skip_breaks_and_slashes = [&](const char* r) {
    while (r < end_ && (*r == '\r' || *r == '\n' || *r == '/')) ++r;
    return r;
  };
  if (*p == ' ' && p + 1 < end_ && !(at(p + 1).classes & (kIsSpace | kIsLetter | kIsNumber)))
    return skip_breaks_and_slashes(skip_other(p + 1));
  if (!(c.classes & kIsSpace)) return skip_breaks_and_slashes(skip_other(p));
  return skip_spaces(p, true);
}

}  // namespace makar
