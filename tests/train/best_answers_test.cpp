// Best-of-n as data: which records come from rated answers.
#include "train/best_answers.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

const Json kPrompt = Json::array({{{"role", "user"}, {"content", "Who?"}}});

TEST(BestAnswers, TheBestAreKept) {
  const std::vector<RewardedAnswer> answers = {{"a", 1}, {"b", 3}, {"b", 3}, {"", 9}, {"c", 2}};
  const auto one = best_records(kPrompt, answers, {});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["messages"][1]["content"], "b");
  EXPECT_EQ(one[0]["reward"], 3);
  const auto two = best_records(kPrompt, answers, {BestForm::kBest, 2, {}});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1]["messages"][1]["content"], "c");
  EXPECT_EQ(best_records(kPrompt, answers, {BestForm::kBest, 9, 2.0}).size(), 2u);
  EXPECT_TRUE(best_records(kPrompt, answers, {BestForm::kBest, 1, 4.0}).empty());
}

TEST(BestAnswers, PairsAndRankingsNeedADifference) {
  const std::vector<RewardedAnswer> answers = {{"a", 1}, {"b", 3}, {"c", 1}}, equal = {{"a", 1}, {"b", 1}};
  const auto pair = best_records(kPrompt, answers, {BestForm::kPairs, 1, {}});
  ASSERT_EQ(pair.size(), 1u);
  EXPECT_EQ(pair[0]["chosen"], "b");
  EXPECT_EQ(pair[0]["rejected"], "c");
  const auto ranked = best_records(kPrompt, answers, {BestForm::kRanked, 1, {}});
  ASSERT_EQ(ranked.size(), 1u);
  EXPECT_EQ(ranked[0]["ranks"], Json({0, 1, 1}));
  for (const BestForm form : {BestForm::kPairs, BestForm::kRanked}) {
    EXPECT_TRUE(best_records(kPrompt, equal, {form, 1, {}}).empty());
    EXPECT_TRUE(best_records(kPrompt, answers, {form, 1, 5.0}).empty());
    EXPECT_TRUE(best_records(kPrompt, {}, {form, 1, {}}).empty());
  }
}

}  // namespace
}  // namespace makar
