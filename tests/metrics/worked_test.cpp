// Examples of the literature with results that can be computed by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "metrics/agreement.h"
#include "metrics/bert_score.h"
#include "metrics/bleu.h"
#include "metrics/classification.h"
#include "metrics/diversity.h"
#include "metrics/fairness.h"
#include "metrics/meteor.h"
#include "metrics/porter.h"
#include "metrics/ranking.h"
#include "metrics/resample.h"
#include "metrics/rouge.h"
#include "metrics/spans.h"
#include "metrics/squad.h"
#include "metrics/stem.h"

namespace makar {
namespace {

TEST(Bleu, PrecisionOfARepeatedWordIsClipped) {
  BleuOptions o;
  o.order = 1;
  const auto e = evaluate_bleu({{"the the the the the the the", {"the cat is on the mat"}}}, o);
  EXPECT_NEAR(e->details["precisions"][0].get<double>(), 100 * 2.0 / 7, 1e-12);
  EXPECT_EQ(e->details["bp"], 1.0);
}

void expect_rouge(const char* hyp, const char* ref, const char* kind, double precision, double recall) {
  const auto e = evaluate_rouge({{hyp, {ref}}}, {kind}, {});
  ASSERT_TRUE(e.ok());
  EXPECT_NEAR(e->details[kind]["precision"].get<double>(), precision, 1e-12) << kind << " " << hyp;
  EXPECT_NEAR(e->details[kind]["recall"].get<double>(), recall, 1e-12) << kind << " " << hyp;
  EXPECT_NEAR(e->score, 2 * precision * recall / (precision + recall), 1e-12);
}

TEST(Rouge, MatchesWorkedSentences) {
  expect_rouge("It is very cold outside.", "It is cold outside.", "rouge1", 4.0 / 5, 1);
  expect_rouge("It is very cold outside.", "It is cold outside.", "rouge2", 2.0 / 4, 2.0 / 3);
  expect_rouge("It is very cold outside.", "It is cold outside.", "rougeL", 4.0 / 5, 1);
  expect_rouge("Outside it is cold.", "It is cold outside.", "rouge1", 1, 1);
  expect_rouge("Outside it is cold.", "It is cold outside.", "rouge2", 2.0 / 3, 2.0 / 3);
  expect_rouge("Outside it is cold.", "It is cold outside.", "rougeL", 3.0 / 4, 3.0 / 4);
  expect_rouge("My father, who was born in Texas, enjoys ice hockey.", "My father enjoys ice hockey.",
               "rougeL", 0.5, 1);
}

// Lin (2004), section 5: "police killed the gunman" against three candidates.
TEST(Rouge, SkipBigramsAndWeightsMatchThePaper) {
  const char* ref = "police killed the gunman";
  expect_rouge("police kill the gunman", ref, "rougeS", 3.0 / 6, 3.0 / 6);
  expect_rouge("the gunman kill police", ref, "rougeS", 1.0 / 6, 1.0 / 6);
  expect_rouge("the gunman police killed", ref, "rougeS", 2.0 / 6, 2.0 / 6);
  // With unigrams: 3 of 6 pairs and 3 of 4 words.
  expect_rouge("police kill the gunman", ref, "rougeSU", 6.0 / 10, 6.0 / 10);
  // X = A B C D E F G; Y1 = A B C D H I K prefers consecutive matches to Y2 = A H B K C I D (weight 2: 4/7
  // and 2/7).
  RougeOptions o;
  o.weight = 2;
  EXPECT_NEAR(evaluate_rouge({{"a b c d h i k", {"a b c d e f g"}}}, {"rougeW"}, o)->score, 4.0 / 7, 1e-12);
  EXPECT_NEAR(evaluate_rouge({{"a h b k c i d", {"a b c d e f g"}}}, {"rougeW"}, o)->score, 2.0 / 7, 1e-12);
}

// Lin (2004), section 3.2: w1 w2 w3 w4 w5 against "w1 w2 w6 w7 w8" and "w1 w3 w8 w9 w5": the union has 4
// words.
TEST(Rouge, SentencesAreUnited) {
  const Segments s = {{"w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", {"w1 w2 w3 w4 w5"}}};
  EXPECT_NEAR(evaluate_rouge(s, {"rougeLsum"}, {})->details["rougeLsum"]["recall"].get<double>(), 4.0 / 5,
              1e-12);
  RougeOptions o;
  o.mode = RougeMode::kRouge155;
  EXPECT_NEAR(evaluate_rouge(s, {"rougeL"}, o)->details["rougeL"]["recall"].get<double>(), 4.0 / 5, 1e-12);
}

TEST(Rouge, ModesDifferInReferencesAndStems) {
  const Segments s = {{"the cat sat", {"the cat", "a dog ran far away"}}};
  EXPECT_NEAR(evaluate_rouge(s, {"rouge1"}, {})->details["rouge1"]["recall"].get<double>(), 1, 1e-12);
  RougeOptions pooled;
  pooled.mode = RougeMode::kRouge155;
  EXPECT_NEAR(evaluate_rouge(s, {"rouge1"}, pooled)->details["rouge1"]["recall"].get<double>(), 2.0 / 7,
              1e-12);
  // Stems: nltk keeps the y of "enjoy", the original makes it "enjoi".
  EXPECT_EQ(porter_stem("enjoy"), "enjoy");
  EXPECT_EQ((*Stemmer::open("porter", ""))("enjoy"), "enjoi");
  EXPECT_FALSE(Stemmer::open("klingon", "--language").ok());
  RougeOptions stem;
  stem.stem = true;
  EXPECT_EQ(evaluate_rouge({{"cats running", {"cat run"}}}, {"rouge2"}, stem)->score, 1);
  EXPECT_EQ(evaluate_rouge({{"cats running", {"cat run"}}}, {"rouge2"}, {})->score, 0);
}

TEST(Rouge, HostileLinesAreBounded) {
  std::string a, b;
  for (int i = 0; i < 300000; ++i) a += fmt::format("a{} ", i % 997), b += fmt::format("a{} ", i % 991);
  for (const char* kind : {"rougeL", "rougeLsum", "rougeW"}) {
    const auto e = evaluate_rouge({{"", {""}}, {a, {b}}}, {kind}, {});
    ASSERT_FALSE(e.ok()) << kind;
    EXPECT_EQ(e.error().kind, Error::Kind::kLimit);
    EXPECT_NE(e.error().text().find("line 2"), std::string::npos);
  }
  RougeOptions any;
  any.skip = -1;
  EXPECT_FALSE(evaluate_rouge({{a, {b}}}, {"rougeS"}, any).ok());
  EXPECT_TRUE(evaluate_rouge({{a, {b}}}, {"rouge2"}, {}).ok());
}

TEST(Meteor, CountsChunksStemsAndSynonyms) {
  // Six matches in one chunk of seven words against six.
  MeteorOptions o;
  const double p = 6.0 / 7, r = 1, mean = p * r / (0.9 * p + 0.1 * r);
  EXPECT_NEAR(meteor(split_words("the cat sat on the mat today"), split_words("The cat sat on the mat"), o),
              (1 - 0.5 * std::pow(1.0 / 6, 3)) * mean, 1e-12);
  EXPECT_EQ(meteor(split_words("non matching hypothesis"), split_words("this is a cat"), o), 0);
  EXPECT_GT(meteor({"running"}, {"runs"}, o), 0);
  EXPECT_EQ(meteor({"sofa"}, {"couch"}, o), 0);
  o.synonyms = [](const std::string& word) {
    return word == "sofa" ? WordList{"couch", "lounge"} : WordList{};
  };
  EXPECT_EQ(meteor({"sofa"}, {"couch"}, o), 0.5);
}

TEST(Squad, NormalisesAnswers) {
  EXPECT_TRUE(squad_exact("The Eiffel Tower!", "eiffel tower"));
  EXPECT_FALSE(squad_exact("theater", "ater"));
  EXPECT_NEAR(squad_f1("in Paris, France", "Paris"), 2 * 1.0 / 4, 1e-12);
  EXPECT_EQ(squad_f1("", ""), 1);
  EXPECT_EQ(squad_f1("", "x"), 0);
  EXPECT_EQ(squad_f1("a", "the"), 1);  // both are empty without articles
  const auto e = evaluate_squad({{"Paris", {"London", "paris."}}, {"Rome", {"Athens"}}}, true);
  EXPECT_EQ(e->score, 50);
  EXPECT_EQ(e->correct, (std::vector<bool>{true, false}));
}

TEST(Diversity, MatchesValuesByHand) {
  EXPECT_NEAR(evaluate_distinct({"a b a b", "a c"}, 2, WordSplit::kNone).score, 3.0 / 4,
              1e-12);  // ab ba ac of 4
  EXPECT_NEAR(evaluate_repetition({"a b a b", "a c"}, 1, WordSplit::kNone).score, (0.5 + 0) / 2, 1e-12);
  EXPECT_EQ(type_token_ratio({"a", "b", "a", "a"}), 0.5);
  EXPECT_NEAR(moving_type_token_ratio({"a", "b", "a", "a"}, 2), (1 + 1 + 0.5) / 3, 1e-12);
  EXPECT_EQ(mtld({"a", "b", "c"}), 3);       // no run ends
  EXPECT_EQ(mtld({"a", "a", "a", "a"}), 2);  // a run of two, again and again
}

// Each text against all others, computed directly.
TEST(Diversity, SelfBleuEqualsBleuAgainstTheOthers) {
  const std::vector<std::string> texts = {"a b c d e f", "a b c x e f g", "z z a b c d", "q", "a b c d e f"};
  BleuOptions o;
  o.effective_order = true;
  double sum = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    Segment s{texts[i], {}};
    for (size_t j = 0; j < texts.size(); ++j)
      if (j != i) s.references.push_back(texts[j]);
    sum += evaluate_bleu({s}, o)->score;
  }
  EXPECT_NEAR(evaluate_self_bleu(texts, o).score, sum / 5, 1e-9);
}

TEST(Ranking, MatchesTheDefinitions) {
  const RankedQuery q =
      rank_query({{"a", 3}, {"b", 2}, {"c", 1}, {"d", 1}}, {{"b", 1}, {"c", 2}, {"lost", 1}});
  EXPECT_EQ(q.relevance, (std::vector<double>{0, 1, 0, 2}));  // d before c: equal scores by id, descending
  EXPECT_EQ(reciprocal_rank(q, 0), 0.5);
  EXPECT_EQ(reciprocal_rank(q, 1), 0);
  EXPECT_NEAR(average_precision(q, 0), (1.0 / 2 + 2.0 / 4) / 3, 1e-12);
  EXPECT_NEAR(ndcg(q, 0, Gain::kExponential),
              (1 / std::log2(3.0) + 3 / std::log2(5.0)) / (3 + 1 / std::log2(3.0) + 1 / std::log2(4.0)),
              1e-12);
}

TEST(Agreement, MatchesValuesByHand) {
  // Cohen (1960), the matrix 20 5 / 10 15: kappa 0.4.
  std::vector<std::string> a, b;
  const auto add = [&](int count, const char* x, const char* y) {
    for (int i = 0; i < count; ++i) a.emplace_back(x), b.emplace_back(y);
  };
  add(20, "yes", "yes"), add(5, "yes", "no"), add(10, "no", "yes"), add(15, "no", "no");
  EXPECT_NEAR(cohen_kappa(*confusion_of(a, b)), 0.4, 1e-12);
  // Two raters and Fleiss: pooled shares .55 and .45.
  EXPECT_NEAR(fleiss_kappa({a, b}), (0.7 - 0.505) / (1 - 0.505), 1e-12);
  // Three raters, two items: agreement (1 + 1/3) / 2, chance (25 + 1) / 36.
  EXPECT_NEAR(fleiss_kappa({{"x", "x"}, {"x", "x"}, {"x", "y"}}), (2.0 / 3 - 26.0 / 36) / (1 - 26.0 / 36),
              1e-12);
  EXPECT_NEAR(pearson({1, 2, 3}, {2, 4, 6}), 1, 1e-12);
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {1, 8, 27, 26}), 0.8, 1e-12);
  EXPECT_NEAR(kendall({1, 2, 3, 4}, {1, 2, 4, 3}), 4.0 / 6, 1e-12);
  EXPECT_FALSE(evaluate_correlation({1, 1}, {1, 2}, "pearson").ok());
  // (wins + half the ties) / all.
  EXPECT_EQ(evaluate_win_rate({"win", "win", "tie", "loss"})->score, 2.5 / 4);
  EXPECT_FALSE(evaluate_win_rate({"won"}).ok());
  // Chen et al. (2021): 1 - C(n - c, k) / C(n, k).
  EXPECT_NEAR(pass_at(5, 2, 2), 1 - 3.0 / 10, 1e-12);
  EXPECT_EQ(pass_at(3, 3, 1), 1);
  EXPECT_EQ(pass_at(3, 0, 3), 0);
  EXPECT_FALSE(evaluate_pass({{"p", 2, 1}}, 3).ok());
}

TEST(Spans, MatchConlleval) {
  const auto spans = spans_of({"B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-ORG", "S-PER", "S-PER"});
  EXPECT_EQ(spans,
            (std::vector<LabelledSpan>{
                {"PER", 0, 2}, {"LOC", 3, 4}, {"LOC", 4, 5}, {"ORG", 5, 6}, {"PER", 6, 7}, {"PER", 7, 8}}));
  const Evaluation e = evaluate_spans({{"B-PER", "I-PER", "O", "B-LOC"}}, {{"B-PER", "I-PER", "O", "B-ORG"}});
  EXPECT_EQ(e.score, 0.5);
  EXPECT_EQ(e.details["labels"]["PER"]["f1"], 1.0);
}

TEST(BertScore, MatchesTokensGreedily) {
  TokenVectors hyp{2, {2, 0, 0, 3}, {1, 1}}, ref{2, {1, 0}, {1}};
  normalize(hyp), normalize(ref);
  const BertScore s = bert_score(hyp, ref);
  EXPECT_NEAR(s.precision, 0.5, 1e-7);
  EXPECT_NEAR(s.recall, 1, 1e-7);
  EXPECT_NEAR(bert_score(hyp, ref, {0.25, 0.5, 0.5}).precision, (0.5 - 0.25) / 0.75, 1e-7);
  hyp.weights = {3, 1};
  EXPECT_NEAR(bert_score(hyp, ref).precision, 0.75, 1e-7);
  const InverseFrequencies idf({{1, 2, 2}, {1}});
  EXPECT_NEAR(idf(1), 0, 1e-12);
  EXPECT_NEAR(idf(2), std::log(3.0 / 2), 1e-12);
  EXPECT_NEAR(idf(9), std::log(3.0), 1e-12);
}

}  // namespace
}  // namespace makar
