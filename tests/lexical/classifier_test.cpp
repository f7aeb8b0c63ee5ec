// Linear classifiers and the hidden Markov model against their definitions.
#include <gtest/gtest.h>

#include <cmath>

#include "lexical/hmm.h"
#include "lexical/text_classifier.h"

using namespace makar;

namespace {

// Manning et al., Introduction to Information Retrieval, example 13.1.
const TextsWithLabels kChina = {
    {"Chinese Beijing Chinese", "Chinese Chinese Shanghai", "Chinese Macao", "Tokyo Japan Chinese"},
    {"yes", "yes", "yes", "no"}};

TEST(Classifier, NaiveBayesMatchesTheWorkedExample) {
  ClassifierOptions o;
  o.method = "naive-bayes", o.features.ngrams = 1;
  const auto c = TextClassifier::train(kChina, o);
  ASSERT_TRUE(c.ok());
  const auto answer = c->classify("Chinese Chinese Chinese Tokyo Japan");
  EXPECT_EQ(c->labels()[answer.label], "yes");
  const double yes = 3.0 / 4 * std::pow(3.0 / 7, 3) / 14 / 14,
               no = 1.0 / 4 * std::pow(2.0 / 9, 3) * 2 / 9 * 2 / 9;
  EXPECT_NEAR(answer.scores[answer.label], yes / (yes + no), 1e-9);
}

TextsWithLabels film_reviews() {
  TextsWithLabels data;
  for (int i = 0; i < 60; ++i) {
    data.texts.push_back(fmt::format("{} film number {} of the year",
                                     i % 3 == 0   ? "good"
                                     : i % 3 == 1 ? "bad"
                                                  : "long",
                                     i % 7));
    data.labels.push_back(i % 3 == 0 ? "pos" : i % 3 == 1 ? "neg" : "mid");
  }
  return data;
}

TEST(Classifier, AllMethodsLearnAndReadBackTheSame) {
  for (const char* method : {"naive-bayes", "logistic", "svm"}) {
    ClassifierOptions o;
    o.method = method;
    const auto c = TextClassifier::train(film_reviews(), o);
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(accuracy_of(*c, film_reviews()), 1) << method;
    const auto json = parse_json(c->json().dump(), "x");
    const auto again = TextClassifier::from_json(*json, "x");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again->classify("a good film").scores, c->classify("a good film").scores);
  }
}

// At the minimum of C * cross-entropy + |w|^2 / 2 the gradient is 0; the biases are not regularised.
TEST(Classifier, LogisticRegressionIsAtItsMinimum) {
  ClassifierOptions o;
  o.features.ngrams = 1, o.strength = 2;
  const auto data = film_reviews();
  const auto c = TextClassifier::train(data, o);
  const auto& w = c->weights();
  std::vector<std::vector<double>> g(3, std::vector<double>(w[0].size(), 0));
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const auto answer = c->classify(data.texts[i]);
    for (size_t k = 0; k < 3; ++k) {
      const double d = o.strength * (answer.scores[k] - (c->labels()[k] == data.labels[i]));
      for (const auto& [f, v] : c->features().vector(data.texts[i])) g[k][f] += d * static_cast<double>(v);
      g[k].back() += d;
    }
  }
  for (size_t k = 0; k < 3; ++k)
    for (size_t f = 0; f < g[k].size(); ++f)
      EXPECT_NEAR(g[k][f] + (f + 1 < g[k].size() ? w[k][f] : 0), 0, 1e-3);
}

TEST(Classifier, MinimizeFindsTheRosenbrockMinimum) {
  std::vector<double> x = {-1.2, 1};
  const double norm = minimize(x, 500, [](const std::vector<double>& at, std::vector<double>& g) {
    const double a = 1 - at[0], b = at[1] - at[0] * at[0];
    g = {-2 * a - 400 * at[0] * b, 200 * b};
    return a * a + 100 * b * b;
  });
  EXPECT_LT(norm, 1e-3);
  EXPECT_NEAR(x[0], 1, 1e-3);
  EXPECT_NEAR(x[1], 1, 1e-3);
}

TEST(Classifier, BrokenFilesAreErrors) {
  ClassifierOptions o;
  const auto c = TextClassifier::train(film_reviews(), o);
  for (const char* key : {"method", "labels", "features", "weights"}) {
    Json json = c->json();
    json.erase(key);
    EXPECT_FALSE(TextClassifier::from_json(json, "x").ok());
    json[key] = 3;
    EXPECT_FALSE(TextClassifier::from_json(json, "x").ok());
  }
  Json json = c->json();
  json["weights"][0].erase(0);
  EXPECT_FALSE(TextClassifier::from_json(json, "x").ok());
}

// Jurafsky and Martin's ice cream: hot and cold days, 1 to 3 cones; probabilities by enumeration of all
// paths.
TEST(Hmm, ViterbiAndForwardBackwardAgreeWithEnumeration) {
  NumberedWords words;
  for (const char* w : {"1", "2", "3"}) words.add(w);
  const double start[2] = {0.8, 0.2}, move[2][3] = {{0.6, 0.3, 0.1}, {0.4, 0.5, 0.1}},
               emit[2][3] = {{0.2, 0.4, 0.4}, {0.5, 0.4, 0.1}};
  std::vector<double> s;
  std::vector<std::vector<double>> t(2), e(2);
  for (int i = 0; i < 2; ++i) {
    s.push_back(std::log(start[i]));
    for (int j = 0; j < 3; ++j)
      t[static_cast<size_t>(i)].push_back(std::log(move[i][j])),
          e[static_cast<size_t>(i)].push_back(std::log(emit[i][j]));
  }
  const HmmTagger tagger = HmmTagger::from_log_probs({"H", "C"}, words, s, t, e);
  const std::vector<std::string> cones = {"3", "1", "3", "2"};
  double best = 0, total = 0, first_hot = 0;
  std::string best_path;
  for (int bits = 0; bits < 16; ++bits) {
    double p = 1;
    std::string name;
    for (int i = 0; i < 4; ++i) {
      const int tag = bits >> i & 1, before = i > 0 ? bits >> (i - 1) & 1 : 0;
      p *= (i == 0 ? start[tag] : move[before][tag]) * emit[tag][cones[static_cast<size_t>(i)][0] - '1'];
      name += "HC"[tag];
    }
    p *= move[bits >> 3 & 1][2];
    total += p, first_hot += bits & 1 ? 0 : p;
    if (p > best) best = p, best_path = name;
  }
  double log_best = 0, log_total = 0;
  std::string found;
  for (const std::string& tag : tagger.tag(cones, &log_best)) found += tag;
  const auto posterior = tagger.posteriors(cones, &log_total);
  EXPECT_EQ(found, best_path);
  EXPECT_NEAR(std::exp(log_best), best, 1e-12);
  EXPECT_NEAR(std::exp(log_total), total, 1e-12);
  EXPECT_NEAR(posterior[0][0], first_hot / total, 1e-12);
  for (const auto& row : posterior) EXPECT_NEAR(row[0] + row[1], 1, 1e-12);
}

TEST(Hmm, LearnsTagsAndEndings) {
  TaggedSentences data;
  for (int i = 0; i < 20; ++i) {
    data.words.push_back({"the", "dog", fmt::format("walk{}ed", i), "slowly"});
    data.tags.push_back({"DET", "NOUN", "VERB", "ADV"});
    data.words.push_back({"a", fmt::format("x{}ness", i), "walked", "fast"});
    data.tags.push_back({"DET", "NOUN", "VERB", "ADV"});
  }
  const auto tagger = HmmTagger::train(data);
  ASSERT_TRUE(tagger.ok());
  EXPECT_EQ(tagger->tag({"the", "boldness", "jumped", "slowly"}),
            (std::vector<std::string>{"DET", "NOUN", "VERB", "ADV"}));
  const auto again = HmmTagger::from_json(*parse_json(tagger->json().dump(), "x"), "x");
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->tag({"a", "dog"}), tagger->tag({"a", "dog"}));
  EXPECT_TRUE(tagger->tag({}).empty());
  for (const char* key : {"tags", "words", "start", "transitions", "emissions", "by_ending"}) {
    Json json = tagger->json();
    json[key] = Json::array({1});
    EXPECT_FALSE(HmmTagger::from_json(json, "x").ok()) << key;
  }
}

}  // namespace
