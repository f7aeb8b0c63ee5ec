// Judges on a model whose probabilities are known; consistency; the watermark's test; rubric and card.
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "eval/cached_model.h"
#include "eval/card.h"
#include "eval/consistency.h"
#include "eval/detector.h"
#include "eval/qualities.h"
#include "eval/toy_model.h"
#include "eval/watermark.h"
#include "scratch_folder.h"

namespace makar {
namespace {

// Prefers the answer that contains "good"; if both or neither do, the one shown first.
class PreferringModel : public ToyModel {
 public:
  std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) override {
    std::vector<Result<Loglikelihood>> out;
    for (const auto& one : requests) {
      const std::string text =
          one.messages.is_null() ? one.context : one.messages[0]["content"].get<std::string>();
      const size_t b = text.find("[Answer B]");
      const bool first = text.find("good") < b, second = text.find("good", b) != std::string::npos;
      const std::string preferred = first == second ? "A" : first ? "A" : "B";
      Loglikelihood value;
      value.logprob = std::log(one.continuation.find(preferred) != std::string::npos ? 0.8 : 0.1);
      out.emplace_back(value);
    }
    return out;
  }
};

TEST(Judge, BothOrdersCount) {
  PreferringModel model;
  const std::vector<JudgedItem> items = {{"q", "good", "bad"}, {"q", "bad", "good"}, {"q", "same", "same"}};
  const auto verdicts = judge_pairs(model, items, {});
  ASSERT_TRUE(verdicts.ok());
  EXPECT_EQ((*verdicts)[0].outcomes[0], "win");
  EXPECT_EQ((*verdicts)[1].outcomes[0], "loss");
  EXPECT_EQ((*verdicts)[2].outcomes[0], "tie");  // the first one in both orders
  EXPECT_TRUE((*verdicts)[2].flipped[0]);
  EXPECT_NEAR((*verdicts)[0].preference, 0.85, 1e-12);
  const auto report = pairs_report(*verdicts);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ((*report)["win"], 1);
  EXPECT_EQ((*report)["tie"], 1);
  EXPECT_DOUBLE_EQ((*report)["win_rate"].get<double>(), 0.5);
  EXPECT_NEAR((*report)["flip_rate"].get<double>(), 1.0 / 3, 1e-12);
}

// After a failure, a second run sends the judge only the requests that have no cached result.
TEST(Judge, ResumesFromTheCache) {
  ScratchFolder folder;
  const std::string path = folder.path() + "/j.cache";
  std::vector<JudgedItem> items;
  for (int i = 0; i < 20; ++i) items.push_back({fmt::format("q{}", i), "a", "b"});
  ToyModel model;
  model.logprobs = {{" A", -1}, {" B", -2}, {" C", -3}};
  const auto expected = judge_pairs(model, items, {});
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(model.request_count, 20 * 2 * 3);

  ToyModel broken = model;
  broken.request_count = 0, broken.fail_after = 60;
  {
    auto cache = EvalCache::open(path);
    CachedModel cached(broken, *cache);
    EXPECT_FALSE(judge_pairs(cached, items, {}).ok());
  }
  ToyModel resumed_model = model;
  resumed_model.request_count = 0;
  auto cache = EvalCache::open(path);
  CachedModel cached(resumed_model, *cache);
  const auto resumed = judge_pairs(cached, items, {});
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed_model.request_count, 60);
  EXPECT_EQ(*pairs_report(*resumed), *pairs_report(*expected));
}

// The cache stores whether a part of an answer ended, and bytes that are not UTF-8.
TEST(Judge, PartsOfAnswersAreCached) {
  class Parts : public ToyModel {
   public:
    std::vector<Result<UntilAnswer>> generate_block(std::span<const UntilRequest> requests) override {
      std::vector<Result<UntilAnswer>> out;
      for (const UntilRequest& one : requests) {
        ++request_count;
        out.emplace_back(UntilAnswer{one.prompt == "cut" ? "caf\xc3" : "tea", one.prompt != "cut"});
      }
      return out;
    }
  };
  ScratchFolder folder;
  UntilRequest cut, whole;
  cut.prompt = "cut", whole.prompt = "whole";
  const std::vector<UntilRequest> requests = {cut, whole};
  for (const int64_t request_count : {2, 0}) {
    Parts model;
    model.answers["cut"] = "\xff", model.answers["whole"] = "all";
    auto cache = EvalCache::open(folder.path() + "/p.cache");
    CachedModel cached(model, *cache);
    const auto blocks = cached.generate_block(requests);
    EXPECT_EQ(blocks[0]->text, "caf\xc3");
    EXPECT_FALSE(blocks[0]->ended);
    EXPECT_EQ(blocks[1]->text, "tea");
    EXPECT_TRUE(blocks[1]->ended);
    EXPECT_EQ(model.request_count, request_count);
    const auto texts = cached.generate_until(requests);  // not served from the cached parts
    EXPECT_EQ(*texts[0], "\xff");
    EXPECT_EQ(*texts[1], "all");
    EXPECT_EQ(model.request_count, 2 * request_count);
  }
}

TEST(Judge, SeedsDrawByProbability) {
  PreferringModel model;
  JudgeOptions options;
  options.seeds = 1000, options.chat = true;
  const std::vector<JudgedItem> items = {{"q", "good", "bad"}};
  const auto verdicts = judge_pairs(model, items, options), again = judge_pairs(model, items, options);
  ASSERT_TRUE(verdicts.ok());
  EXPECT_EQ((*verdicts)[0].outcomes, (*again)[0].outcomes);
  const auto& outcomes = (*verdicts)[0].outcomes;
  // Both orders for the first answer, or one of them with a tie: 0.64 + 2 * 0.08.
  EXPECT_NEAR(static_cast<double>(std::count(outcomes.begin(), outcomes.end(), "win")) / 1000, 0.8, 0.05);
}

TEST(Judge, ScoresAreWeightedByProbability) {
  ToyModel model;
  for (int i = 1; i <= 5; ++i) model.logprobs[fmt::format(" {}", i)] = std::log(0.05);
  model.logprobs[" 4"] = std::log(0.8);
  JudgeOptions options;
  options.rubric = "5: perfect";
  const auto judged = judge_scores(model, {{"q", "a", "", "ref"}}, options);
  ASSERT_TRUE(judged.ok());
  EXPECT_NEAR(judged->scores[0].score, 0.05 * (1 + 2 + 3 + 5) + 0.8 * 4, 1e-12);
  EXPECT_NE(model.contexts[0].find("[Rubric]\n5: perfect"), std::string::npos);
  EXPECT_NE(model.contexts[0].find("[Reference answer]\nref"), std::string::npos);
}

TEST(Consistency, SelfcheckByWordsAndByModelMatchesValuesByHand) {
  EXPECT_EQ(sentences_of("It is 3.5 m. Is it?\nYes! no"),
            (std::vector<std::string>{"It is 3.5 m.", "Is it?", "Yes!", "no"}));
  const auto scores = selfcheck_by_words({"a b", "z z"}, {"a b", "a b"});
  // Counts a 3, b 3, z 2; 8 words of 3 kinds.
  EXPECT_NEAR(scores[0], -std::log(4.0 / 11), 1e-12);
  EXPECT_NEAR(scores[1], -std::log(3.0 / 11), 1e-12);
  ToyModel model;
  model.logprobs = {{" Yes", std::log(0.3)}, {" No", std::log(0.1)}};
  const auto judged = selfcheck_by_model(model, {"s", "t"}, {"x", "y"}, {});
  ASSERT_TRUE(judged.ok());
  EXPECT_NEAR((*judged)[0], 0.25, 1e-12);
  EXPECT_EQ(model.contexts.size(), 8u);
}

TEST(Consistency, SelfcheckByVectorsUsesTheNearestSentenceOfEachSample) {
  // One token per text: the angle of its vector is its number of letters, in tenths.
  const TextVectors vectors = [](const std::string& text) -> Result<TokenVectors> {
    const float angle = 0.1f * static_cast<float>(text.size());
    return TokenVectors{2, {std::cos(angle), std::sin(angle)}, {1}};
  };
  const auto scores = selfcheck_by_vectors(vectors, {"aaa.", "aaaaaa."}, {"aaa. aaaaa.", "aa."});
  ASSERT_TRUE(scores.ok());
  EXPECT_NEAR((*scores)[0], 1 - (1 + std::cos(0.1)) / 2, 1e-6);
  EXPECT_NEAR((*scores)[1], 1 - (std::cos(0.1) + std::cos(0.4)) / 2, 1e-6);
}

// Answers Yes to a question if the judged answer contains the letter of that question.
class QualityModel : public ToyModel {
 public:
  std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) override {
    std::vector<Result<Loglikelihood>> out;
    for (const auto& one : requests) {
      const size_t at = one.context.find("[Answer]\n") + 9;
      const std::string answer = one.context.substr(at, one.context.find('\n', at) - at);
      bool yes = false;
      for (const auto& [word, question] : words)
        yes = yes ||
              (answer.find(word) != std::string::npos && one.context.find(question) != std::string::npos);
      Loglikelihood value;
      value.logprob = std::log(yes == (one.continuation == " Yes") ? 0.9 : 0.1);
      out.emplace_back(value);
    }
    return out;
  }
  const std::map<std::string, std::string> words = {{"S", "make sense"},
                                                    {"P", "specific to this"},
                                                    {"I", "Is the answer interesting"},
                                                    {"C", "make a claim"},
                                                    {"T", "support every claim"}};
};

TEST(Qualities, SharesMatchValuesByHand) {
  QualityModel model;
  std::vector<JudgedItem> items;
  for (const char* answer : {"SPICT", "SC", "PI", "ST"}) items.push_back({"q", answer});
  const auto verdicts = judge_qualities(model, items, {"a", "b", "c", "d"}, {});
  ASSERT_TRUE(verdicts.ok());
  EXPECT_NEAR((*verdicts)[0].sensible, 0.9, 1e-12);
  const Json report = qualities_report(*verdicts, true);
  EXPECT_DOUBLE_EQ(report["sensible"]["value"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(report["specific"]["value"].get<double>(), 0.25);  // the third answer is not sensible
  EXPECT_DOUBLE_EQ(report["interesting"]["value"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(report["ssi"].get<double>(), 5.0 / 12);
  EXPECT_DOUBLE_EQ(report["grounded"]["value"].get<double>(), 0.5);  // of two answers with claims
  EXPECT_DOUBLE_EQ(report["informative"]["value"].get<double>(), 0.25);
  const auto without_sources = judge_qualities(model, items, {}, {});
  ASSERT_TRUE(without_sources.ok());
  EXPECT_FALSE(qualities_report(*without_sources, false).contains("grounded"));
}

TEST(Consistency, SummariesAreScoredByQuestions) {
  ToyModel model;
  model.answers[""] = "Is it cold?\nIs it late?\n";  // the prompt ends with a line break
  model.logprobs = {{" Yes", -1}, {" No", -2}};
  const auto scores = judge_summary(model, "It is cold and late.", "Cold.", 5, {});
  ASSERT_TRUE(scores.ok());
  EXPECT_EQ(scores->document_questions, (std::vector<std::string>{"Is it cold?", "Is it late?"}));
  EXPECT_EQ(scores->score, 1);
}

TEST(Watermark, BinomialTailMatchesDirectSums) {
  EXPECT_DOUBLE_EQ(binomial_tail(4, 0, 0.5), 1);
  EXPECT_NEAR(binomial_tail(4, 3, 0.5), 5.0 / 16, 1e-14);
  EXPECT_NEAR(binomial_tail(3, 2, 0.25), 3 * 0.0625 * 0.75 + 0.015625, 1e-14);
  EXPECT_NEAR(binomial_tail(200, 200, 0.5) / std::pow(0.5, 200), 1, 1e-9);
  EXPECT_EQ(binomial_tail(4, 5, 0.5), 0);
  double sum = 0;  // against direct products
  for (int k = 30; k <= 50; ++k) {
    double term = 1;
    for (int i = 0; i < k; ++i) term *= (50.0 - i) / (k - i) * 0.4;
    sum += term * std::pow(0.6, 50 - k);
  }
  EXPECT_NEAR(binomial_tail(50, 30, 0.4), sum, 1e-12);
}

TEST(Watermark, OnlyTheKeyFindsIt) {
  const Watermark watermark({"key"}), other_key({"other"});
  // Drawn from equal logits: with the watermark most tokens are green.
  std::vector<int64_t> tokens = {0};
  WatermarkConstraint constraint(watermark, 0);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits(1000, 0);
    ASSERT_TRUE(constraint.mask(logits).ok());
    size_t at = static_cast<size_t>(i * 37 % 1000);
    while (logits[at] == 0) at = (at + 1) % 1000;
    tokens.push_back(static_cast<int64_t>(at));
    ASSERT_TRUE(constraint.accept(tokens.back()).ok());
  }
  const WatermarkTest found = test_watermark(watermark, tokens);
  EXPECT_EQ(found.green, found.tokens);
  EXPECT_LT(found.p, 1e-40);
  EXPECT_GT(test_watermark(other_key, tokens).p, 0.001);
  int64_t green = 0;
  for (int64_t t = 0; t < 10000; ++t) green += watermark.green(7, t) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(green), 5000, 250);
}

TEST(Watermark, FalsePositivesKeepTheirRate) {
  int64_t flagged = 0;
  const Watermark watermark({"key"});
  for (int64_t text = 0; text < 2000; ++text) {
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 60; ++i) tokens.push_back((text * 7919 + i * i * 31 + i * text * 17) % 50021);
    flagged += test_watermark(watermark, tokens).p <= 0.05 ? 1 : 0;
  }
  EXPECT_LE(static_cast<double>(flagged) / 2000, 0.05 + 0.015);
  EXPECT_GT(flagged, 20);
}

TEST(Detector, TheThresholdKeepsTheRateOnHumanTexts) {
  std::vector<double> human;
  for (int i = 0; i < 100; ++i) human.push_back(i);
  const double threshold = threshold_for(human, 0.05);
  EXPECT_EQ(std::count_if(human.begin(), human.end(), [&](double s) { return s > threshold; }), 5);
  EXPECT_EQ(threshold_for({3, 1, 2}, 0.01), 3);
  // Even numbers to 98 and odd ones to 99. Two of 50 may exceed a threshold: 94 and 95. Above 94 are 95, 97
  // and 99; above 95 are 96 and 98.
  EXPECT_EQ(held_out_positives(human, 0.04), 5);
  EXPECT_EQ(held_out_positives({1}, 0.04), 0);
}

// Ratings of the twelve criteria that add up to `total`, as evenly as possible.
std::vector<RubricRating> ratings_of(const std::string& rater, const std::string& system, int64_t total) {
  std::vector<RubricRating> out;
  for (size_t p = 0; p < 12; ++p) {
    const int64_t score = total / 12 + (static_cast<int64_t>(p) < total % 12 ? 1 : 0);
    out.push_back({rater, system, rubric_criteria()[p], score});
  }
  return out;
}

TEST(Card, RatingsGiveTotalsAndAgreement) {
  ASSERT_EQ(rubric_criteria().size(), 12u);
  const std::vector<int64_t> totals = {25, 23, 22, 7, 27, 36, 21, 8, 5, 29};
  std::vector<RubricRating> ratings;
  for (size_t s = 0; s < totals.size(); ++s)
    for (const char* rater : {"one", "two"})
      for (const RubricRating& one : ratings_of(rater, fmt::format("system {}", s), totals[s]))
        ratings.push_back(one);
  const auto rated = rate_systems(ratings);
  ASSERT_TRUE(rated.ok());
  for (size_t s = 0; s < totals.size(); ++s)
    EXPECT_DOUBLE_EQ(rated->totals.at(fmt::format("system {}", s)), static_cast<double>(totals[s]));
  EXPECT_DOUBLE_EQ(*rated->kappa, 1);
  ratings[0].score = 4 - ratings[0].score;
  EXPECT_LT(*rate_systems(ratings)->kappa, 1);
  ratings.push_back(ratings[0]);
  EXPECT_NE(rate_systems(ratings).error().text().find("twice"), std::string::npos);
}

TEST(Card, WritesTheKnownFacts) {
  const ScratchFolder folder;
  ASSERT_TRUE(write_file(folder.path() + "/config.json", R"({"model_type":"llama","vocab_size":512})").ok());
  ASSERT_TRUE(
      write_file(
          folder.path() + "/r.json",
          R"({"results":{"piqa":{"alias":"piqa","acc,none":0.625,"acc_stderr,none":0.1},"bbq":{"bias_score,none":0.25}}})")
          .ok());
  const std::string csv = folder.path() + "/ratings.csv";
  ASSERT_TRUE(write_file(csv, "rater,system,point,score\na,m,compute,3\nb,m,compute,2\n").ok());
  CardInput input;
  input.name = "m", input.model = folder.path();
  auto results = read_evaluated_model(folder.path() + "/r.json");
  ASSERT_TRUE(results.ok());
  input.results.push_back(*results);
  auto ratings = read_ratings(csv);
  ASSERT_TRUE(ratings.ok()) << ratings.error().text();
  input.rubric = *rate_systems(*ratings);
  input.manifest = {{"data", "a | b"}, {"run", {{"energy_kwh", 9.5}}}};
  const auto card = model_card(input);
  ASSERT_TRUE(card.ok());
  EXPECT_NE(card->find("| piqa | acc,none | 0.6250 | 0.1000 |"), std::string::npos);
  EXPECT_LT(card->find("## Risks"), card->find("| bbq | bias_score,none | 0.2500 |"));
  EXPECT_NE(card->find("| compute | 2.50 | nothing |"), std::string::npos);
  EXPECT_NE(card->find("| energy | not rated | run.energy_kwh |"), std::string::npos) << *card;
  EXPECT_NE(card->find("| data sources | not rated | data |"), std::string::npos);
  EXPECT_NE(card->find("| evaluations | not rated | 2 scores |"), std::string::npos);
  EXPECT_NE(card->find("| data | a \\| b |"), std::string::npos);
  EXPECT_NE(card->find("| vocabulary | 512 |"), std::string::npos);
  ASSERT_TRUE(write_file(csv, "rater,system,point,score\na,m,computing,3\n").ok());
  EXPECT_NE(read_ratings(csv).error().text().find("ratings.csv:2: 'computing' is not a point of the rubric"),
            std::string::npos);
  ASSERT_TRUE(write_file(csv, "rater,system,point,score\na,m,compute,5\n").ok());
  EXPECT_NE(read_ratings(csv).error().text().find("expected a score from 0 to 4"), std::string::npos);
}

}  // namespace
}  // namespace makar
