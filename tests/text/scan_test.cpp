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
  EXPECT_FALSE(translate_pattern("[a&&[b]]").ok());
  EXPECT_FALSE(Regex::compile("(").ok());
}

}  // namespace
}  // namespace makar
