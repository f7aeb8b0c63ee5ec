// Small studies with results computed by hand: parsing, blind orders, agreement, win rates, preference data.
#include <gtest/gtest.h>

#include <set>

#include "people/study_report.h"

namespace makar {
namespace {

const char* kStudy = R"({"prompt": "q0", "answers": ["a", "b"], "systems": ["x", "y"]}
{"prompt": [{"role": "user", "content": "q1"}], "answers": ["c", "d"], "systems": ["y", "x"]}
{"prompt": "q2", "answers": ["1", "2", "3", "4"], "systems": ["x", "y", "z", "w"]}
{"prompt": "q3", "answers": ["only"], "systems": ["x"]}
)";

Study study() {
  auto out = parse_study(kStudy, "some/colours.jsonl");
  check(out.ok(), out.ok() ? "" : out.error().text());
  return std::move(*out);
}
std::vector<Rating> ratings(const std::string& lines) {
  auto out = parse_ratings(lines, study(), "r.jsonl");
  check(out.ok(), out.ok() ? "" : out.error().text());
  return std::move(*out);
}

const char* kRatings = R"({"rater": "ann", "item": 0, "ranks": [1, 2]}
{"rater": "bob", "item": 0, "ranks": [1, 2], "correction": "better a", "critique": "b is rude"}
{"rater": "ann", "item": 1, "ranks": [1, 2]}
{"rater": "bob", "item": 1, "ranks": [2, 1]}
{"rater": "ann", "item": 3, "scales": [{"usefulness": 5, "truthfulness": 4}]}
{"rater": "bob", "item": 3, "scales": [{"usefulness": 3, "truthfulness": 4}]}
)";

TEST(Study, KindsFollowFromAnswers) {
  const Study s = study();
  EXPECT_EQ(s.name, "colours");
  ASSERT_EQ(s.items.size(), 4u);
  EXPECT_EQ(s.items[0].kind, RatingKind::kPair);
  EXPECT_EQ(s.items[2].kind, RatingKind::kRank);
  EXPECT_EQ(s.items[3].kind, RatingKind::kScale);
}

TEST(Study, ErrorsHaveTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"prompt\": \"q\"}\n", "s.jsonl:1"},
      {"\n{\"prompt\": 3, \"answers\": [\"a\"]}\n", "s.jsonl:2"},
      {"{\"prompt\": \"q\", \"answers\": []}\n", "expected 1 to 9"},
      {"{\"prompt\": \"q\", \"answers\": [\"a\"], \"kind\": \"pair\"}\n", "cannot be rated as a pair"},
      {"{\"prompt\": \"q\", \"answers\": [\"a\"], \"kind\": \"scales\"}\n", "did you mean 'scale'"},
      {"{\"prompt\": \"q\", \"answers\": [\"a\"], \"systems\": []}\n", "each of 1 answers, got 0"},
      {"", "has no items"}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_study(text, "s.jsonl");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().text().find(expected), std::string::npos) << parsed.error().text();
  }
  for (const char* line :
       {"{\"rater\": \"\", \"item\": 0, \"ranks\": [1, 2]}", "{\"rater\": \"a\", \"item\": 9}",
        "{\"rater\": \"a\", \"item\": 0, \"ranks\": [1]}", "{\"rater\": \"a\", \"item\": 0}",
        "{\"rater\": \"a\", \"item\": 0, \"ranks\": [0, 1]}",
        "{\"rater\": \"a\", \"item\": 3, \"scales\": [{\"usefulness\": 6}]}",
        "{\"rater\": \"a\", \"item\": 3, \"scales\": [{\"kindness\": 1}]}"}) {
    const auto parsed = parse_ratings(std::string(line) + "\n", study(), "r.jsonl");
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_EQ(parsed.error().place, "r.jsonl:1") << line;
  }
}

TEST(Study, TheLastRatingCountsAndATruncatedLineIsIgnored) {
  const auto all = ratings(
      "{\"rater\":\"ann\",\"item\":0,\"ranks\":[1,2]}\n{\"rater\":\"ann\",\"item\":0,\"ranks\":[2,1]}\n{"
      "\"rater\":");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ranks, (std::vector<int64_t>{2, 1}));
}

TEST(Study, OrdersAreBlindAndComplete) {
  std::set<std::vector<size_t>> seen;
  for (size_t item = 0; item < 200; ++item) {
    const auto order = blind_order("ann", item, 3);
    EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), 3u);
    EXPECT_EQ(order, blind_order("ann", item, 3));
    seen.insert(order);
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_NE(blind_order("ann", 7, 9), blind_order("bob", 7, 9));
}

TEST(Study, AgreementMatchesValuesComputedByHand) {
  const Json report = study_report(study(), ratings(kRatings));
  EXPECT_EQ(report["raters"], 2);
  EXPECT_EQ(report["rated"], 3);
  // Verdicts: ann first, first; bob first, second. One of two is equal; by chance 1 * 1/2 + 0 * 1/2 = 1/2:
  // kappa 0.
  EXPECT_DOUBLE_EQ(report["agreement"]["equal_share"].get<double>(), 0.5);
  EXPECT_NEAR(report["agreement"]["kappa"].get<double>(), 0, 1e-12);
  // System x wins item 0 twice, and on item 1 (its second answer) loses and wins: 3 of 4.
  EXPECT_DOUBLE_EQ(report["systems"]["x"]["win_rate"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(report["systems"]["y"]["win_rate"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(report["systems"]["x"]["usefulness"].get<double>(), 4);
  EXPECT_EQ(report["critiques"].size(), 1u);
}

TEST(Study, RankingsBecomePairs) {
  const std::string lines =
      preference_lines(study(), ratings("{\"rater\":\"ann\",\"item\":2,\"ranks\":[2,1,3,3]}\n"));
  // 2 > 1 > 3 = 4: five pairs; the tie gives no pair.
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);
  EXPECT_NE(lines.find(R"("chosen":"2","rejected":"1","margin":1.0)"), std::string::npos) << lines;
}

TEST(Study, MajoritiesAndCorrectionsBecomePairs) {
  const std::string lines = preference_lines(study(), ratings(kRatings));
  // Item 0: a is preferred to b, and the correction to a. Item 1: one vote against one gives no pair.
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_NE(lines.find(R"("chosen":"better a")"), std::string::npos);
}

TEST(Study, CritiquesOfOneAnswerAreFeedback) {
  const std::string lines = critique_lines(
      study(),
      ratings("{\"rater\":\"ann\",\"item\":3,\"scales\":[{\"usefulness\":2}],\"critique\":\"too short\"}\n"
              "{\"rater\":\"bob\",\"item\":3,\"scales\":[{\"usefulness\":2}],\"critique\":\"no\","
              "\"correction\":\"one\"}\n"
              "{\"rater\":\"ann\",\"item\":0,\"ranks\":[1,2],\"critique\":\"which?\"}\n"));
  const auto first = parse_json(lines.substr(0, lines.find('\n')), "line");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, (Json{{"prompt", "q3"}, {"completion", "only"}, {"critique", "too short"}}));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_NE(lines.find(R"("correction":"one")"), std::string::npos) << lines;
}

TEST(Study, ResultsHaveWinRatesAndStandardErrors) {
  const Json results = study_results(study(), ratings(kRatings));
  EXPECT_DOUBLE_EQ(results["results"]["colours/x"]["win_rate,none"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(results["results"]["colours/x"]["usefulness_stderr,none"].get<double>(), 1);
}

}  // namespace
}  // namespace makar
