// The learned metric: corrupted copies, the ridge solver, a head that recovers a known function.
#include "metrics/learned_head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace makar {
namespace {

TEST(LearnedHead, RidgeMatchesValuesByHand) {
  // (A + 1 I) x = b with A = [[1, 1], [1, 2]]: [[2, 1], [1, 3]] x = [3, 4] has x = [1, 1].
  const auto x = solve_ridge({1, 1, 1, 2}, {3, 4}, 1);
  EXPECT_NEAR(x[0], 1, 1e-12);
  EXPECT_NEAR(x[1], 1, 1e-12);
}

TEST(LearnedHead, CorruptedCopiesDependOnTheSeedAndScoreLower) {
  const std::vector<std::string> sentences = {"the cat sat on the mat near the door",
                                              "a dog ran over the long bridge"};
  const auto pairs = synthetic_pairs(sentences, 20, 7);
  ASSERT_TRUE(pairs.ok());
  ASSERT_EQ(pairs->size(), 40u);
  const auto again = synthetic_pairs(sentences, 20, 7), other = synthetic_pairs(sentences, 20, 8);
  bool differs = false;
  double lowest = 1;
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ((*pairs)[i].hypothesis, (*again)[i].hypothesis);
    differs = differs || (*pairs)[i].hypothesis != (*other)[i].hypothesis;
    for (const double signal : (*pairs)[i].signals) {
      EXPECT_GE(signal, 0);
      EXPECT_LE(signal, 1 + 1e-9);
      lowest = std::min(lowest, signal);
    }
  }
  EXPECT_TRUE(differs);
  EXPECT_LT(lowest, 0.8);
}

TEST(LearnedHead, FeaturesMatchValuesByHand) {
  TokenVectors a{2, {1, 0, 0, 1}, {1, 1}}, b{2, {1, 0}, {1}};
  const auto f = pair_features(a, b);
  ASSERT_EQ(f.size(), 5u + 4);
  EXPECT_NEAR(f[0], 0.5, 1e-6);  // precision: the second token matches nothing
  EXPECT_NEAR(f[1], 1, 1e-6);
  EXPECT_NEAR(f[3], std::sqrt(0.5), 1e-6);  // (1/2, 1/2) and (1, 0)
  EXPECT_NEAR(f[4], std::log(1.5), 1e-12);
  EXPECT_NEAR(f[5], 0.5, 1e-6);
  EXPECT_NEAR(f[7], 0.5, 1e-6);
}

TEST(LearnedHead, RecoversKnownRatings) {
  const Rng rng(3, Purpose::kSynthetic, 0);
  FeatureRows rows;
  std::vector<std::vector<double>> signals;
  std::vector<double> ratings;
  for (uint64_t i = 0; i < 200; ++i) {
    std::vector<double> x;
    for (uint64_t k = 0; k < 6; ++k) x.push_back(rng.uniform_double(i * 6 + k));
    signals.push_back({x[0], 0.5 * x[0] + 0.1});
    ratings.push_back(1 + 3 * x[0] + 2 * x[4]);
    rows.push_back(x);
  }
  auto head = LearnedHead::pretrain(rows, signals);
  ASSERT_TRUE(head.ok());
  head->encoder = "toy layer 1";
  EXPECT_NEAR(head->score({1, 0, 0, 0, 0, 0}) - head->score({0, 0, 0, 0, 0, 0}), 0.75, 0.1);
  const auto fit = head->tune(rows, ratings);
  ASSERT_TRUE(fit.ok());
  EXPECT_GT(fit->pearson, 0.99);
  EXPECT_NEAR(head->score({0.5, 0.5, 0.5, 0.5, 0.5, 0.5}), 3.5, 0.05);
  const auto read = LearnedHead::from_json(head->json(), "h.json");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->version(), head->version());
  EXPECT_EQ(read->score(rows[3]), head->score(rows[3]));
  EXPECT_FALSE(head->tune(FeatureRows(20, {1, 2}), std::vector<double>(20)).ok());
  EXPECT_FALSE(LearnedHead::pretrain({}, {}).ok());
}

TEST(LearnedHead, BrokenFilesAreErrors) {
  for (const char* text :
       {"[]", "{}", R"({"kind":"makar learned metric"})",
        R"({"kind":"makar learned metric","mean":[1],"scale":[1],"weights":[1,2],"bias":0,"encoder":"e"})",
        R"({"kind":"makar learned metric","mean":["x"],"scale":[1],"weights":[1],"bias":0,"encoder":"e"})",
        R"({"kind":"makar learned metric","mean":[1],"scale":[1],"weights":[1],"bias":"0","encoder":"e"})"}) {
    const auto read = LearnedHead::from_json(Json::parse(text), "h.json");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().place, "h.json");
  }
}

}  // namespace
}  // namespace makar
