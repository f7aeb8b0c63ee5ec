#include "base/lower_ascii.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(LowerAscii, ChangesOnlyAsciiLetters) {
  EXPECT_EQ(lower_ascii('Q'), 'q');
  EXPECT_EQ(lower_ascii('['), '[');
  EXPECT_EQ(lower_ascii("@AZ[az`{ \xC3\x84 09"), "@az[az`{ \xC3\x84 09");
  EXPECT_EQ(lower_ascii(std::string("Content-TYPE")), "content-type");
}

}  // namespace
}  // namespace makar
