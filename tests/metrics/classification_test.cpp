// Classification and fairness against scikit-learn's figures, and small cases by hand.
#include "metrics/classification.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "metrics/fairness.h"

namespace makar {
namespace {

class ScikitLearn : public testing::Test {
 protected:
  void SetUp() override {
    auto read = read_json(std::string(MAKAR_TEST_GOLDEN) + "/metrics/scikit_learn.json");
    ASSERT_TRUE(read.ok());
    golden = *read;
  }
  std::vector<std::string> labels(const char* key) const {
    std::vector<std::string> out;
    for (const Json& v : golden[key]) out.push_back(v.dump());
    return out;
  }
  std::vector<bool> bits(const char* key) const {
    std::vector<bool> out;
    for (const Json& v : golden[key]) out.push_back(v == 1);
    return out;
  }
  double want(const char* key) const { return golden[key].get<double>(); }
  Json golden;
};

TEST_F(ScikitLearn, LabelMetricsMatch) {
  const auto e = evaluate_classes(labels("pred"), labels("y"), "accuracy");
  ASSERT_TRUE(e.ok());
  for (const char* key : {"accuracy", "f1_macro", "f1_micro", "f1_weighted", "mcc", "kappa"})
    EXPECT_NEAR(e->details[key].get<double>(), want(key), 1e-12) << key;
  EXPECT_EQ(e->details["confusion"], golden["confusion"]);
}

TEST_F(ScikitLearn, ProbabilityMetricsMatch) {
  Probabilities p{{"0", "1"}, {}, {}};
  for (size_t i = 0; i < golden["score"].size(); ++i) {
    const double score = golden["score"][i];
    p.rows.push_back({1 - score, score});
    p.truth.push_back(golden["binary"][i]);
  }
  const auto e = evaluate_probabilities(p, "auroc", 10);
  ASSERT_TRUE(e.ok());
  for (const char* key : {"auroc", "average_precision", "log_loss", "brier"})
    EXPECT_NEAR(e->details[key].get<double>(), want(key), 1e-12) << key;
}

TEST_F(ScikitLearn, FairnessMetricsMatch) {
  const Evaluation e = evaluate_fairness({bits("binary_pred"), bits("binary"), labels("group")},
                                         "demographic_parity_difference");
  for (const char* key : {"demographic_parity_difference", "demographic_parity_ratio",
                          "equal_opportunity_difference", "equalized_odds_difference"})
    EXPECT_NEAR(e.details[key].get<double>(), want(key), 1e-12) << key;
  ASSERT_EQ(e.details["groups"].size(), golden["groups"].size());
  for (const Json& g : e.details["groups"])
    for (const char* key : {"n", "selection_rate", "tpr", "fpr"})
      EXPECT_NEAR(g[key].get<double>(), golden["groups"][g["group"].get<std::string>()][key].get<double>(),
                  1e-12);
}

TEST(Calibration, BinsMatchValuesByHand) {
  // Confidence .9 four times with three right; .6 once, right.
  Probabilities p{{"a", "b", "c"}, {}, {}};
  for (int i = 0; i < 4; ++i) p.rows.push_back({0.9, 0.05, 0.05}), p.truth.push_back(i == 0 ? 1 : 0);
  p.rows.push_back({0.2, 0.6, 0.2}), p.truth.push_back(1);
  const auto bins = calibration_bins(p, 10);
  EXPECT_EQ(bins[8].count, 4);
  EXPECT_EQ(bins[5].count, 1);
  EXPECT_NEAR(expected_calibration_error(bins), (4 * 0.15 + 1 * 0.4) / 5, 1e-12);
  EXPECT_NEAR(maximum_calibration_error(bins), 0.4, 1e-12);
}

TEST(Classes, LabelsAreSortedAndLimited) {
  EXPECT_EQ(sorted_labels({"10", "9", "10"}), (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(sorted_labels({"10", "9", "x"}), (std::vector<std::string>{"10", "9", "x"}));
  std::vector<std::string> many;
  for (size_t i = 0; i <= kMaxClassLabels; ++i) many.push_back(std::to_string(i));
  EXPECT_FALSE(confuse(many, many).ok());
  EXPECT_EQ(auroc({1, 1, 1, 1}, {true, false, true, false}), 0.5);
  Probabilities one{{"0", "1"}, {{0.5, 0.5}}, {1}};
  EXPECT_FALSE(evaluate_probabilities(one, "auroc", 10).ok());
  EXPECT_TRUE(evaluate_probabilities(one, "brier", 10).ok());
}

TEST(Fairness, RepresentationAndRatiosMatchValuesByHand) {
  const Evaluation e = evaluate_representation({"a", "a", "a", "b"}, {});
  EXPECT_NEAR(e.score, 0.25, 1e-12);
  EXPECT_NEAR(evaluate_representation({"a", "a", "a", "b"}, {{"a", 3}, {"b", 1}}).score, 0, 1e-12);
  EXPECT_NEAR(evaluate_representation({"a", "a"}, {{"a", 1}, {"b", 1}}).score, 0.5, 1e-12);
  const FairnessItems items{{true, false, true, true}, {true, true, true, true}, {"x", "x", "y", "y"}};
  EXPECT_EQ(evaluate_fairness(items, "equal_opportunity_ratio").score, 0.5);
  EXPECT_EQ(evaluate_fairness(items, "equalized_odds_ratio").score,
            0.5);  // no negatives: only one rate has a ratio
}

}  // namespace
}  // namespace makar
