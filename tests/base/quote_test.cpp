#include "base/quote.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(Quote, EscapesControlCharactersAndTruncatesBetweenCharacters) {
  EXPECT_EQ(quote("a\nb"), "'a\\x0ab'");
  EXPECT_EQ(quote("abcdef", 3), "'abc...'");
  EXPECT_EQ(quote("a\u00e9", 2), "'a...'");
}

TEST(Quote, DoublesQuotesInside) {
  EXPECT_EQ(double_quoted(""), "\"\"");
  EXPECT_EQ(double_quoted("plain"), "\"plain\"");
  EXPECT_EQ(double_quoted("a\"b\"\""), "\"a\"\"b\"\"\"\"\"");
}

}  // namespace
}  // namespace makar
