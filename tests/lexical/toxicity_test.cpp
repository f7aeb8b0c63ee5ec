// Toxicity by a small classifier: the format of its results, its version, and balanced labels.
#include "lexical/toxicity.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TextClassifier small_classifier(bool balanced = false) {
  TextsWithLabels data;
  for (int i = 0; i < 20; ++i) {
    data.texts.emplace_back("you are awful and stupid"), data.labels.emplace_back("insult");
    if (i % 10 == 0) data.texts.emplace_back("you are kind and clever"), data.labels.emplace_back("neither");
  }
  ClassifierOptions options;
  options.features.ngrams = 1, options.balanced = balanced;
  auto out = TextClassifier::train(data, options);
  check(out.ok(), "the classifier is trained");
  return std::move(*out);
}

TEST(Toxicity, ScoresHaveThePerspectiveForm) {
  const auto toxicity = ToxicityClassifier::from_json(small_classifier(true).json(), "t.json");
  ASSERT_TRUE(toxicity.ok()) << toxicity.error().text();
  const std::string text = "dü stupid";
  const Json scores = toxicity->perspective(text);
  const Json& toxicity_scores = scores["attributeScores"]["TOXICITY"];
  EXPECT_EQ(toxicity_scores["summaryScore"]["type"], "PROBABILITY");
  EXPECT_DOUBLE_EQ(toxicity_scores["summaryScore"]["value"].get<double>(), toxicity->toxicity(text));
  EXPECT_DOUBLE_EQ(scores["attributeScores"]["INSULT"]["summaryScore"]["value"].get<double>(),
                   toxicity->toxicity(text));
  EXPECT_FALSE(scores["attributeScores"].contains("NEITHER"));
  EXPECT_EQ(toxicity_scores["spanScores"][0]["end"], 9);  // characters, not bytes
  EXPECT_GT(toxicity->toxicity("stupid"), 0.5);
  EXPECT_LT(toxicity->toxicity("clever"), 0.5);
  EXPECT_EQ(toxicity->toxicity("xyzzy"), 0);  // no word is known
  EXPECT_EQ(toxicity->version(),
            ToxicityClassifier::from_json(small_classifier(true).json(), "u.json")->version());
  EXPECT_NE(toxicity->version(),
            ToxicityClassifier::from_json(small_classifier(false).json(), "t.json")->version());
}

TEST(Toxicity, BalancedLabelsWeighTheSame) {
  // "you" is in all texts, ten times as often with insults: without balancing it counts as an insult.
  const auto plain = ToxicityClassifier::from_json(small_classifier(false).json(), "t.json");
  const auto balanced = ToxicityClassifier::from_json(small_classifier(true).json(), "t.json");
  EXPECT_GT(plain->toxicity("you"), 0.75);
  EXPECT_LT(balanced->toxicity("you"), 0.7);
  EXPECT_GT(balanced->toxicity("you"), 0.3);
}

TEST(Toxicity, UnusableBenignLabelsAreErrors) {
  const Json json = small_classifier().json();
  EXPECT_TRUE(ToxicityClassifier::from_json(json, "t.json", {"insult"}).ok());
  const auto unknown_label = ToxicityClassifier::from_json(json, "t.json", {"kind"});
  ASSERT_FALSE(unknown_label.ok());
  EXPECT_NE(unknown_label.error().text().find("has no label"), std::string::npos);
  const auto all_benign = ToxicityClassifier::from_json(json, "t.json", {"insult", "neither"});
  ASSERT_FALSE(all_benign.ok());
  EXPECT_NE(all_benign.error().text().find("--benign"), std::string::npos);
}

}  // namespace
}  // namespace makar
