// Feedback of people as training data: every kind in every form.
#include "data/feedback.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

std::vector<Json> records(const Feedback& feedback, const char* form) {
  std::vector<Json> out;
  const Status used =
      for_each_record(feedback, *feedback_form_named(form), [&](const Json& record) -> Status {
        out.push_back(record);
        return Done{};
      });
  check(used.ok(), "the feedback has records");
  return out;
}
std::vector<Json> records(const Json& record, const char* form) {
  const auto read = read_feedback(record);
  check(read.ok(), "the record is feedback");
  return records(*read, form);
}

// How many records each kind gives in the forms sft, pairs, rated and ranked.
TEST(Feedback, EveryKindBecomesEveryForm) {
  const struct {
    FeedbackKind kind;
    Json record;
    size_t sft, pairs, rated, ranked;
  } kRows[] = {
      {FeedbackKind::kPreference, {{"prompt", "q"}, {"chosen", "a"}, {"rejected", "b"}}, 1, 1, 2, 1},
      {FeedbackKind::kRanking,
       {{"prompt", "q"}, {"answers", {"a", "b", "c"}}, {"ranks", {2, 0, 0}}},
       1,
       2,
       2,
       1},
      {FeedbackKind::kDemonstration, {{"prompt", "q"}, {"completion", "a"}}, 1, 0, 1, 0},
      {FeedbackKind::kCorrection, {{"prompt", "q"}, {"completion", "b"}, {"correction", "a"}}, 1, 1, 2, 1},
      {FeedbackKind::kCritique,
       {{"prompt", "q"}, {"completion", "b"}, {"critique", "no"}, {"revision", "a"}},
       1,
       1,
       2,
       1},
      {FeedbackKind::kCritique, {{"prompt", "q"}, {"completion", "b"}, {"critique", "no"}}, 0, 0, 1, 0},
      {FeedbackKind::kThumb, {{"prompt", "q"}, {"completion", "a"}, {"label", true}}, 1, 0, 1, 0},
      {FeedbackKind::kThumb, {{"prompt", "q"}, {"completion", "a"}, {"thumb", "down"}}, 0, 0, 1, 0},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(read_feedback(row.record)->kind, row.kind) << row.record;
    EXPECT_EQ(records(row.record, "sft").size(), row.sft) << row.record;
    EXPECT_EQ(records(row.record, "pairs").size(), row.pairs) << row.record;
    EXPECT_EQ(records(row.record, "rated").size(), row.rated) << row.record;
    EXPECT_EQ(records(row.record, "ranked").size(), row.ranked) << row.record;
  }
}

TEST(Feedback, TheBetterAnswerIsTheCorrection) {
  const Json record = {{"prompt", "q"}, {"completion", "b"}, {"correction", "a"}};
  EXPECT_EQ(records(record, "sft")[0]["messages"][1]["content"], "a");
  const Json pair = records(record, "pairs")[0];
  EXPECT_EQ(pair["chosen"][0]["content"], "a");
  EXPECT_EQ(pair["rejected"][0]["content"], "b");
  EXPECT_EQ(records(record, "rated")[1]["label"], false);
}

TEST(Feedback, ACritiqueBecomesARevisionRequest) {
  Feedback feedback = *read_feedback({{"prompt", "q"}, {"completion", "b"}, {"critique", "too short"}});
  const Json request = revision_request(feedback);
  ASSERT_EQ(request.size(), 3u);
  EXPECT_EQ(request[1]["content"], "b");
  EXPECT_NE(request[2]["content"].get<std::string>().find("too short"), std::string::npos);
  EXPECT_EQ(records(feedback, "rated")[0]["label"], false);
  add_revision(feedback, "b");  // no revision: the same answer
  EXPECT_EQ(feedback.answers.size(), 1u);
  add_revision(feedback, "a longer answer");
  EXPECT_EQ(records(feedback, "pairs")[0]["chosen"][0]["content"], "a longer answer");
}

// 64 answers are 2,016 pairs, each with the whole prompt.
TEST(Feedback, APromptIsNotRepeatedWithoutLimit) {
  Json answers = Json::array();
  for (int i = 0; i < 64; ++i) answers.push_back(std::to_string(i));
  const auto read = read_feedback({{"prompt", std::string(200'000, 'p')}, {"answers", answers}});
  ASSERT_TRUE(read.ok());
  int used = 0;
  const auto count = [&](const Json&) -> Status { return ++used, Done{}; };
  const Status pairs = for_each_record(*read, FeedbackForm::kPairs, count);
  ASSERT_FALSE(pairs.ok());
  EXPECT_NE(pairs.error().message.find("'ranked'"), std::string::npos) << pairs.error().message;
  EXPECT_EQ(used, 0);
  EXPECT_TRUE(for_each_record(*read, FeedbackForm::kRanked, count).ok());
  EXPECT_EQ(used, 1);
}

TEST(Feedback, BadRecordsAreErrors) {
  for (const Json& bad : {Json(3), Json::object(), Json{{"prompt", "q"}}, Json{{"completion", "a"}},
                          Json{{"prompt", "q"}, {"completion", "a"}, {"correction", "a"}},
                          Json{{"prompt", "q"}, {"completion", "a"}, {"label", 7}},
                          Json{{"prompt", "q"}, {"answers", {"a", "b"}}, {"ranks", {UINT64_MAX, 1}}},
                          Json{{"prompt", "q"}, {"chosen", "a"}, {"rejected", "b"}, {"margin", 1e300}},
                          Json{{"prompt", "q"}, {"completion", "a"}, {"critique", 1}}})
    EXPECT_FALSE(read_feedback(bad).ok()) << bad;
}

}  // namespace
}  // namespace makar
