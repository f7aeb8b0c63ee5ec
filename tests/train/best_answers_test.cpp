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

// A truncated answer is the worse one of a pair or ranking, or in none.
TEST(BestAnswers, ATruncatedAnswerIsNeverBetterThanAFinishedOne) {
  const RewardedAnswer good{"good", 2}, bad{"bad", 1}, cut_high{"cut high", 9, false},
      cut_low{"cut low", 0, false}, cut_between{"cut between", 1.5, false};
  const auto records = [](BestForm form, const std::vector<RewardedAnswer>& answers) {
    return best_records(kPrompt, answers, {form, 9, {}});
  };
  const auto best = records(BestForm::kBest, {cut_high, bad, good, cut_low});
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0]["messages"][1]["content"], "good");
  const auto pair = records(BestForm::kPairs, {cut_high, bad, good, cut_low});
  ASSERT_EQ(pair.size(), 1u);
  EXPECT_EQ(pair[0]["chosen"], "good");
  EXPECT_EQ(pair[0]["rejected"], "cut low");
  EXPECT_TRUE(records(BestForm::kPairs, {cut_high, good}).empty()) << "the truncated one has more reward";
  EXPECT_EQ(records(BestForm::kPairs, {cut_low, good}).size(), 1u);
  const auto ranked = records(BestForm::kRanked, {cut_high, cut_between, bad, cut_low, good});
  ASSERT_EQ(ranked.size(), 1u);
  EXPECT_EQ(ranked[0]["answers"], Json({"good", "bad", "cut low"}));
  for (const BestForm form : {BestForm::kBest, BestForm::kPairs, BestForm::kRanked})
    EXPECT_TRUE(records(form, {cut_high, cut_low}).empty()) << "no answer finished";
  // Of two equal texts the finished one counts.
  EXPECT_EQ(records(BestForm::kBest, {{"same", 1, false}, {"same", 1, true}}).size(), 1u);
}

}  // namespace
}  // namespace makar
