#include "base/option_names.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(OptionNames, AreSpelledForTheCommandLineAndForRequests) {
  const char* message = "`min_tokens`: 8 exceeds `max_tokens` (4)";
  EXPECT_EQ(options_as_flags(message), "--min-tokens: 8 exceeds --max-tokens (4)");
  EXPECT_EQ(options_as_fields(message), "min_tokens: 8 exceeds max_tokens (4)");
}

TEST(OptionNames, OtherTextStaysAsItIs) {
  for (const char* text : {"", "`", "``", "a ` b", "run `git lfs pull`", "`Top`", "`top-k`", "`top_k"}) {
    EXPECT_EQ(options_as_flags(text), text);
    EXPECT_EQ(options_as_fields(text), text);
  }
  EXPECT_EQ(options_as_flags("a `b c`top_k` d"), "a `b c--top-k d");
  const std::string engine = "raise `program.mem_budget`";
  EXPECT_EQ(options_as_flags(engine), "raise --mem-budget");
  EXPECT_EQ(options_as_fields(engine), "raise --mem-budget");
  EXPECT_EQ(options_as_fields(engine, "the server's "), "raise the server's --mem-budget");
}

}  // namespace
}  // namespace makar
