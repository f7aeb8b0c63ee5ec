// The hand-written scanners against PCRE2 on random text, and patterns in Oniguruma's syntax.
#include <gtest/gtest.h>

#include <random>

#include "text/pre_tokenizer.h"
#include "text/read/patterns.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Text with the boundaries that matter to the patterns: contractions, line breaks, marks, digits, letters
// with and without case.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {" ",
                                                 "  ",
                                                 "\t",
                                                 "\n",
                                                 "\r\n",
                                                 "\n\n ",
                                                 "\u00A0",
                                                 "\u3000",
                                                 "\u0085",
                                                 "'s",
                                                 "'S",
                                                 "'ll",
                                                 "'Ll",
                                                 "'\u017F",
                                                 "'re",
                                                 "'VE",
                                                 "'",
                                                 "''",
                                                 "a",
                                                 "b",
                                                 "Z",
                                                 "AB",
                                                 "aB",
                                                 "Ab",
                                                 "don",
                                                 "1",
                                                 "12",
                                                 "1234",
                                                 "\u0660",
                                                 "\u00BD",
                                                 "\u2167",
                                                 "!",
                                                 "...",
                                                 "/",
                                                 "//\n",
                                                 "-",
                                                 "_",
                                                 "\u00E9",
                                                 "\u00C9",
                                                 "\u01C5",
                                                 "\u02B0",
                                                 "\u4E2D\u6587",
                                                 "\u0301",
                                                 "e\u0301",
                                                 "\u0903",
                                                 "\u05D0",
                                                 "\u0E01\u0E33",
                                                 "\U0001F600",
                                                 "\U0001F468\u200D\U0001F469",
                                                 "\u200B",
                                                 "\u0000\u0001",
                                                 "\uFFFD",
                                                 "\U00020000",
                                                 "\u1E9E",
                                                 "\u0130"};
  std::string text;
  const int count = static_cast<int>(random() % 12) + 1;
  for (int i = 0; i < count; ++i) {
    if (random() % 8) {
      text += parts[random() % parts.size()];
      continue;
    }
    char32_t code = random() % 0xA000;
    if (code >= 0xD800 && code < 0xE000) code = 'x';
    append_utf8(text, code);
  }
  return text;
}

TEST(Scanner, MatchesPcre) {
  for (const char* pattern : {kGpt2Pattern, kCl100kPattern, kQwen2Pattern, kO200kPattern}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.error().text();
    std::mt19937 random(7);
    std::vector<Span> scanned, matched;
    int wrong = 0;
    for (int i = 0; i < 20000 && wrong < 5; ++i) {
      const std::string text = random_text(random);
      scanned.clear(), matched.clear();
      ASSERT_TRUE(regex->find_all(text, scanned).ok());
      ASSERT_TRUE(regex->match_all(text, matched).ok());
      if (scanned == matched) continue;
      ++wrong;
      std::string difference;
      for (const Span s : scanned) difference += fmt::format("[{},{}]", s.begin, s.end);
      difference += " pcre ";
      for (const Span s : matched) difference += fmt::format("[{},{}]", s.begin, s.end);
      ADD_FAILURE() << pattern << "\n" << Json(text).dump(-1, ' ', true) << "\n" << difference;
    }
  }
}

TEST(Regex, BoundsExponentialPatterns) {
  const auto regex = Regex::compile("(a+)+$|(a|aa)+b");
  ASSERT_TRUE(regex.ok());
  std::vector<Span> matches;
  const Status status = regex->find_all(std::string(5000, 'a') + "!", matches);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, Error::Kind::kLimit);
}

TEST(Regex, PatternsAreTranslatedOrRejected) {
  EXPECT_EQ(*translate_pattern("\\p{Han}{1,3}+|\\p{Han}+"), "\\p{sc:Han}{1,}|\\p{sc:Han}+");
  EXPECT_EQ(*translate_pattern("\\h[\\h]"), "[0-9a-fA-F][0-9a-fA-F]");
  EXPECT_EQ(*translate_pattern("\\x{41}+a{2,3}+"), "\\x{41}+a{2,}");
  EXPECT_FALSE(Regex::compile("(").ok());
  EXPECT_FALSE(translate_pattern("[a&&]").ok());
  EXPECT_FALSE(translate_pattern("[a[b]").ok());
  const auto deep = translate_pattern(std::string(5000, '[') + "a" + std::string(5000, ']'));
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.error().kind, Error::Kind::kLimit);
}

// Oniguruma's interpretation, checked with the Hugging Face library one code point at a time.
TEST(Regex, ReadsRubySyntax) {
  struct Case {
    const char *pattern, *text, *matched;
  };
  const Case cases[] = {
      {" ?[^(\\s|[.,!?\u2026])]+", "so, (this) is\u2026 it",
       "sothis is it"},  // BLOOM's pattern, a class in a class
      {"[\\p{L}&&[^\\p{Han}]]+", "ab\u4E2Dcd", "abcd"},
      {"[^a-z&&[^aeiou]]", "abcde1", "ae1"},
      {"[a[^b]]", "abc", "ac"},
      {"[a-[cx-z]]", "a-bcz", "a-cz"},
      {"[+-\\s]", "+-. ", "+- "},
      {"\\w+", "e\u0301\u00B2_\u0940 !", "e\u0301\u00B2_\u0940"},  // marks are word characters
      {"[\\w]", "\u00B2a", "a"},
      {"a\\b", "a\u0301 a", "a"},
      {"\\p{Han}", "\u4E2D\u3001", "\u4E2D"},  // only characters of the script, none that scripts share
      {"\\p{Letter}\\p{^Nd}", "a1b-", "b-"},
      {"[[:punct:]]", "a$.", "$."},
      {"\\p{Punct}", "a$.", "."},
      {"(?m:.)", "\n", "\n"},
      {"\\u0041[\\u4e00-\\u9fa5]", "A\u4E2D", "A\u4E2D"},
      {"[^\\S\\n]", "a \n\t", " \t"},
      {"\\p{S}", "a\U0001FADB's", "\U0001FADB"},  // a symbol of Unicode 15
      {"\\P{S}", "a\U0001FADB's", "a's"},
      {"[^\\p{L}\\p{S}]", "a\U0001FADB's", "'"},
      {"\\w+", "\U00031350!", "\U00031350"},  // a letter of Unicode 15
      {"[[:graph:]]", "\U0001FADB \U0003FFFF", "\U0001FADB"},
      {"[[:^graph:]]", "\U0001FADB ", " "},
  };
  for (const Case& c : cases) {
    const auto regex = Regex::compile(c.pattern);
    ASSERT_TRUE(regex.ok()) << c.pattern << " " << regex.error().text();
    std::vector<Span> matches;
    ASSERT_TRUE(regex->find_all(c.text, matches).ok());
    std::string matched;
    for (const Span s : matches) matched += std::string_view(c.text).substr(s.begin, s.end - s.begin);
    EXPECT_EQ(matched, c.matched) << c.pattern;
  }
}

// Patterns and category() use the same Unicode version, regardless of the version of PCRE2.
TEST(Regex, CategoriesMatchTheUnicodeTables) {
  std::string text;
  std::vector<char32_t> codes;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    append_utf8(text, code);
    codes.push_back(code);
  }
  const std::pair<const char*, CategoryMask> names[] = {{"L", kLetter},
                                                        {"M", kMark},
                                                        {"N", kNumber},
                                                        {"P", kPunctuation},
                                                        {"S", kSymbol},
                                                        {"Lu", detail::mask({Category::kLu})},
                                                        {"Lo", detail::mask({Category::kLo})},
                                                        {"Mn", detail::mask({Category::kMn})},
                                                        {"Nd", detail::mask({Category::kNd})},
                                                        {"So", detail::mask({Category::kSo})},
                                                        {"Po", detail::mask({Category::kPo})}};
  for (const auto& [name, categories] : names)
    for (const char kind : {'p', 'P'}) {
      if (kind == 'P' && std::string_view(name) != "S") continue;  // a million matches each
      const std::string pattern = fmt::format("\\{}{{{}}}", kind, name);
      const auto regex = Regex::compile(pattern);
      ASSERT_TRUE(regex.ok()) << pattern;
      std::vector<Span> matches;
      ASSERT_TRUE(regex->match_all(text, matches).ok()) << pattern;
      std::vector<char32_t> found, expected;
      for (const Span& s : matches) found.push_back(decode_utf8(text, s.begin).code);
      for (const char32_t code : codes)
        if (in(code, categories) == (kind == 'p')) expected.push_back(code);
      EXPECT_EQ(found.size(), expected.size()) << pattern;
      EXPECT_TRUE(found == expected) << pattern;
    }
}

// DeepSeek's pattern. U+1FADB is a symbol, so its match includes the apostrophe, as in the Hugging Face
// library.
TEST(Regex, ASymbolOfUnicode15KeepsTheApostrophe) {
  const auto regex = Regex::compile(
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  ASSERT_TRUE(regex.ok()) << regex.error().text();
  const std::string text = "\U0001FADB's";
  std::vector<Span> matches;
  ASSERT_TRUE(regex->find_all(text, matches).ok());
  EXPECT_EQ(matches, (std::vector<Span>{{0, 5}, {5, 6}}));
}

}  // namespace
}  // namespace makar
