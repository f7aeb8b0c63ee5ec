#include "base/replace.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(Replace, ReplacesEveryOccurrence) {
  EXPECT_EQ(replace_all(std::string("a b a"), "a", "xy"), "xy b xy");
  EXPECT_EQ(replace_all(std::string("aaa"), "aa", "b"), "ba");
  EXPECT_EQ(replace_all(std::string("abc"), "b", ""), "ac");
  EXPECT_EQ(replace_all(std::string("abc"), "", "x"), "abc");
  EXPECT_EQ(replace_all(std::u32string(U"a&amp;"), U"&amp;", U"&"), U"a&");
}

}  // namespace
}  // namespace makar
