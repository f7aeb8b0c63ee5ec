// The output filter: which text is released, for whole texts and for pieces.
#include "serve/output_filter.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

const OutputFilter kFilter = {[](std::string_view text) { return text.find("bad") == text.npos ? 0.1 : 0.9; },
                              0.5};

std::string filtered(const std::string& text, size_t piece, bool& rejected) {
  FilteredText filter(&kFilter);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += filter.push(text.substr(at, piece));
  out += filter.finish();
  rejected = filter.rejected();
  return out;
}

TEST(OutputFilter, EndsBeforeTheRejectedSentence) {
  const std::string text = "All is fine. This is bad! More text.";
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{7}, text.size()}) {
    bool rejected = false;
    EXPECT_EQ(filtered(text, piece, rejected), "All is fine.") << piece;
    EXPECT_TRUE(rejected);
    EXPECT_EQ(filtered("Fine. And an end without a mark", piece, rejected),
              "Fine. And an end without a mark");
    EXPECT_FALSE(rejected);
    EXPECT_EQ(filtered("no mark, but bad", piece, rejected), "");
    EXPECT_TRUE(rejected);
  }
}

TEST(OutputFilter, LongSentencesAreReleasedBeforeTheirEnd) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ä";
  FilteredText filter(&kFilter);
  const std::string sent = filter.push(text);
  EXPECT_GT(sent.size(), 1900u);
  EXPECT_EQ(sent.size() % 2, 0u);  // no character is cut
  EXPECT_EQ(sent + filter.finish(), text);
}

TEST(OutputFilter, WithoutFilterTextPasses) {
  FilteredText none(nullptr);
  EXPECT_EQ(none.push("bad"), "bad");
  EXPECT_EQ(none.finish(), "");
}

}  // namespace
}  // namespace makar
