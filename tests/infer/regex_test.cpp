// Regular expressions, compared with std::regex.
#include <gtest/gtest.h>

#include <regex>

#include "base/utf8.h"
#include "infer/grammar_writer.h"

namespace makar {
namespace {

const char* const kPatterns[] = {
    "abc",
    "a|bc|",
    "(ab|c)*d{2,3}",
    "[a-c]+[^a-c]?",
    "a{0,2}b{2,}",
    "(a+)+b",
    "\\d+(\\.\\d+)?",
    "\\w{2}\\s\\W",
    "(?:a|(b))c",
    "a.c",
    "[a\\]\\-b]*",
    "x*?y+?",
    "((a|b)(c|d)){1,2}",
    "\\x61[\\u0062-d]",
    "[^\\d\\s]{1,3}",
    "(a|ab)(c|bcd)",
    "(|a){3}b",
    "a{2}",
    "[.*+]",
    "\\(a\\)\\\\",
};

class RegexTest : public testing::TestWithParam<const char*> {};

TEST_P(RegexTest, AgreesWithStdRegex) {
  const auto grammar = Grammar::from_regex(GetParam());
  ASSERT_TRUE(grammar.ok()) << grammar.error().text();
  const std::regex reference(GetParam());
  const Rng rng(1, Purpose::kSynthetic);
  const std::string letters = "aabbccdd1 .xy-]\\()*";
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    std::string text;
    for (uint32_t i = 0, n = rng.bits(trial)[0] % 7; i < n; ++i)
      text += letters[rng.bits(trial * 8 + i)[1] % letters.size()];
    EXPECT_EQ(matches(*grammar, text), std::regex_match(text, reference)) << text;
  }
  static const auto tokens = test_vocabulary();
  static const TokenTrie trie(tokens, {0});
  // '.' of std::regex matches one byte, so texts with other than ASCII characters are skipped.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const GrammarText w = write_text(*grammar, trie, tokens, seed, 60);
    const bool ascii =
        std::all_of(w.text.begin(), w.text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    if (w.ended && ascii && w.text.find('\r') == std::string::npos)
      EXPECT_TRUE(std::regex_match(w.text, reference)) << w.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, RegexTest, testing::ValuesIn(kPatterns));

TEST(Regex, CharactersAreValidUtf8) {
  const auto grammar = Grammar::from_regex("[^a]");
  ASSERT_TRUE(grammar.ok());
  // Sequences of one to four bytes, compared with the definition of UTF-8.
  const auto accepts = [&](const std::string& bytes) { return matches(*grammar, bytes); };
  for (uint32_t a = 0; a < 256; ++a) {
    EXPECT_EQ(accepts({static_cast<char>(a)}), a < 0x80 && a != 'a');
    for (uint32_t b = 0; b < 256; b += 3) {
      const bool tail = b >= 0x80 && b < 0xC0;
      EXPECT_EQ(accepts({static_cast<char>(a), static_cast<char>(b)}), tail && a >= 0xC2 && a < 0xE0);
      const bool three =
          tail && a >= 0xE0 && a < 0xF0 && !(a == 0xE0 && b < 0xA0) && !(a == 0xED && b >= 0xA0);
      EXPECT_EQ(accepts({static_cast<char>(a), static_cast<char>(b), '\x85'}), three);
      const bool four =
          tail && a >= 0xF0 && a <= 0xF4 && !(a == 0xF0 && b < 0x90) && !(a == 0xF4 && b >= 0x90);
      EXPECT_EQ(accepts({static_cast<char>(a), static_cast<char>(b), '\x85', '\xBF'}), four);
    }
  }
}

TEST(Regex, CharacterRangesIncludeTheirEnds) {
  const std::pair<uint32_t, uint32_t> ranges[] = {{0x7E, 0x81},      {0x7FE, 0x802},       {0xD7FE, 0xE001},
                                                  {0xFFFE, 0x10002}, {0x10FFF0, 0x10FFFF}, {0x123, 0x4567},
                                                  {0xE9, 0x1F600}};
  for (const auto& [low, high] : ranges) {
    const auto grammar = Grammar::from_regex(fmt::format("[\\u{{{:x}}}-\\u{{{:x}}}]", low, high));
    ASSERT_TRUE(grammar.ok()) << grammar.error().text();
    for (const uint32_t border : {low, high})
      for (uint32_t c = border - 3; c <= border + 3 && c <= grammar::kMaxCodePoint; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        EXPECT_EQ(matches(*grammar, utf8(c)), c >= low && c <= high) << c;
      }
  }
}

TEST(Regex, UnsupportedSyntaxIsAnErrorWithAPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"(a", "no ')'"},         {"a)", "unexpected"},
      {"[a", "no ']'"},         {"*a", "nothing for"},
      {"a**", "group"},         {"(a)\\1", "back-references"},
      {"(?=a)", "look-around"}, {"(?i)a", "flags"},
      {"\\bword", "\\b"},       {"[z-a]", "ascending order"},
      {"a{2,1}", "below"},      {"a{9999999}", "1000000"},
      {"\\p{L}", "\\p"},        {"a^b", "beginning"},
      {"\xFF", "UTF-8"},        {"\\", "backslash"},
      {"\\uD800", "Unicode"},   {"[^\\d\\D]", "no text"},
  };
  for (const auto& [pattern, words] : cases) {
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_FALSE(grammar.ok()) << pattern;
    EXPECT_NE(grammar.error().text().find(words), std::string::npos)
        << pattern << ": " << grammar.error().text();
  }
}

}  // namespace
}  // namespace makar
