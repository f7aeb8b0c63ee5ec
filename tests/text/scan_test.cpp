// The hand-written scanners against PCRE2, and the short way against the pipeline, on random text.
#include <gtest/gtest.h>

#include <random>

#include "text/pre_tokenizer.h"
#include "text/read/patterns.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Text with the seams that patterns turn on: contractions, breaks, marks, digits, letters with and without
// case.
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

TEST(Scanner, AgreesWithPcre) {
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
      std::string shown;
      for (const Span s : scanned) shown += fmt::format("[{},{}]", s.begin, s.end);
      shown += " pcre ";
      for (const Span s : matched) shown += fmt::format("[{},{}]", s.begin, s.end);
      ADD_FAILURE() << pattern << "\n" << Json(text).dump(-1, ' ', true) << "\n" << shown;
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

TEST(Regex, TranslatesOrRefuses) {
  EXPECT_EQ(*translate_pattern("\\p{N}{1,3}+|\\p{L}+"), "\\p{N}{1,}|\\p{L}+");
  EXPECT_EQ(*translate_pattern("\\h[\\h]"), "[0-9a-fA-F][0-9a-fA-F]");
  EXPECT_EQ(*translate_pattern("\\x{41}+a{2,3}+"), "\\x{41}+a{2,}");
  EXPECT_FALSE(Regex::compile("(").ok());
  EXPECT_FALSE(translate_pattern("[a&&]").ok());
  EXPECT_FALSE(translate_pattern("[a[b]").ok());
  const auto deep = translate_pattern(std::string(5000, '[') + "a" + std::string(5000, ']'));
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.error().kind, Error::Kind::kLimit);
}

// As Oniguruma reads them: checked with the Hugging Face library, one code point at a time.
TEST(Regex, ReadsRubySyntax) {
  struct Case {
    const char *pattern, *text, *matched;
  };
  const Case cases[] = {
      {" ?[^(\\s|[.,!?\u2026])]+", "so, (this) is\u2026 it", "sothis is it"},  // BLOOM's, a class in a class
      {"[\\p{L}&&[^\\p{Han}]]+", "ab\u4E2Dcd", "abcd"},
      {"[^a-z&&[^aeiou]]", "abcde1", "ae1"},
      {"[a[^b]]", "abc", "ac"},
      {"[a-[cx-z]]", "a-bcz", "a-cz"},
      {"[+-\\s]", "+-. ", "+- "},
      {"\\w+", "e\u0301\u00B2_\u0940 !", "e\u0301\u00B2_\u0940"},  // marks belong to words
      {"[\\w]", "\u00B2a", "a"},
      {"a\\b", "a\u0301 a", "a"},
      {"\\p{Han}", "\u4E2D\u3001", "\u4E2D"},  // the script itself, not what it shares
      {"\\p{Letter}\\p{^Nd}", "a1b-", "b-"},
      {"[[:punct:]]", "a$.", "$."},
      {"\\p{Punct}", "a$.", "."},
      {"(?m:.)", "\n", "\n"},
      {"\\u0041[\\u4e00-\\u9fa5]", "A\u4E2D", "A\u4E2D"},
      {"[^\\S\\n]", "a \n\t", " \t"},
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

}  // namespace
}  // namespace makar
