#include "base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace makar {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const std::string text = utf8(code);
    const CodePoint decoded = decode_utf8(text);
    ASSERT_TRUE(decoded.ok && decoded.code == code && decoded.size == text.size())
        << std::hex << uint32_t{code};
    ASSERT_EQ(utf8_size(text[0]), text.size());
    size_t at = 0;
    ASSERT_EQ(next_code(text, at), code);
    ASSERT_EQ(at, text.size());
    for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(is_utf8_continuation(text[i]), i > 0);
  }
}

// The replacement of the WHATWG standard: one U+FFFD per maximal valid prefix.
TEST(Utf8, InvalidSequencesAreReplacedOncePerMaximalPrefix) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\x80z", "a\uFFFDz"},                            // a continuation byte alone
      {"\xC0\xAF", "\uFFFD\uFFFD"},                      // overlong
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},            // overlong
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // above U+10FFFF
      {"\xF5", "\uFFFD"},
      {"\xE2\x82", "\uFFFD"},  // truncated
      {"\xF0\x9F\x98z", "\uFFFDz"},
      {"12345678\xE2\x82\xAC\xFF", "12345678\u20AC\uFFFD"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_FALSE(is_valid_utf8(text)) << expected;
    EXPECT_EQ(to_valid_utf8(text), expected);
    EXPECT_TRUE(is_valid_utf8(expected));
  }
}

TEST(Utf8, CompletePrefixExcludesOnlyAnUnfinishedCharacter) {
  const std::string euro = "x\u20AC";
  EXPECT_EQ(complete_utf8_prefix(euro), 4u);
  EXPECT_EQ(complete_utf8_prefix(euro.substr(0, 3)), 1u);
  EXPECT_EQ(complete_utf8_prefix(euro.substr(0, 2)), 1u);
  EXPECT_EQ(complete_utf8_prefix("x\xFF"), 2u);  // never becomes a character
  EXPECT_EQ(complete_utf8_prefix("\xE2\x82\x82\x82"), 4u);
  EXPECT_EQ(complete_utf8_prefix(""), 0u);
  EXPECT_EQ(count_code_points(euro), 2u);
  EXPECT_TRUE(is_ascii("plain text, more than 8 bytes"));
  EXPECT_FALSE(is_ascii("plain text, \u20AC"));
}

}  // namespace
}  // namespace makar
