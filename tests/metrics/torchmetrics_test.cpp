// Text and retrieval metrics against the fixture made with torchmetrics (32-bit floats: equal to 1e-6).
#include <gtest/gtest.h>

#include "base/json.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "metrics/error_rate.h"
#include "metrics/ranking.h"
#include "metrics/rouge.h"
#include "metrics/ter.h"

namespace makar {
namespace {

constexpr double kNear = 1e-6;
constexpr ChrfOptions kChrf{6, 2, 2, false, false, true};  // torchmetrics averages the F of every order

Json golden() { return *read_json(std::string(MAKAR_TEST_GOLDEN) + "/metrics/torchmetrics.json"); }

BleuOptions unsmoothed(WordSplit words) {
  BleuOptions o;
  o.words = words, o.smoothing = Smoothing::kNone;
  return o;
}

Segments segments_of(const Json& pairs) {
  Segments out;
  for (const Json& p : pairs) out.push_back({p["hypothesis"], p["references"]});
  return out;
}

TEST(Torchmetrics, EveryPairMatches) {
  const Json g = golden();
  ASSERT_EQ(g["pairs"].size(), 8u);
  for (const Json& p : g["pairs"]) {
    const std::string text = p["hypothesis"];
    const Segments all = segments_of(Json::array({p}));
    Segments first = all;
    first[0].references.resize(1);
    const auto near = [&](const char* name, const Result<Evaluation>& evaluation, double scale) {
      ASSERT_TRUE(evaluation.ok()) << evaluation.error().text();
      EXPECT_NEAR(evaluation->score * scale, p[name].get<double>(), kNear) << name << " of " << text;
    };
    near("bleu4", evaluate_bleu(all, unsmoothed(WordSplit::kNone)), 0.01);
    near("sacrebleu_13a", evaluate_bleu(all, unsmoothed(WordSplit::k13a)), 0.01);
    near("sacrebleu_char", evaluate_bleu(all, unsmoothed(WordSplit::kChar)), 0.01);
    near("chrf", evaluate_chrf(all, kChrf), 0.01);
    near("ter", evaluate_ter(all, {}), 0.01);
    near("wer", evaluate_error_rate(first, ErrorUnit::kWords, false), 1);
    near("cer", evaluate_error_rate(first, ErrorUnit::kCharacters, false), 1);
    near("eed", evaluate_eed(all), 1);
    for (const char* kind : {"rouge1", "rouge2", "rougeL"}) {
      const auto evaluation = evaluate_rouge(all, {kind}, {});
      ASSERT_TRUE(evaluation.ok());
      for (const char* part : {"precision", "recall", "fmeasure"})
        EXPECT_NEAR(evaluation->details[kind][part].get<double>(),
                    p["rouge"][std::string(kind) + "_" + part].get<double>(), kNear)
            << kind << " " << part << " of " << text;
    }
  }
}

TEST(Torchmetrics, TheCorpusMatches) {
  const Json g = golden();
  const Segments all = segments_of(g["pairs"]);
  EXPECT_NEAR(evaluate_bleu(all, unsmoothed(WordSplit::kNone))->score / 100,
              g["corpus"]["corpus_bleu4"].get<double>(), kNear);
  EXPECT_NEAR(evaluate_bleu(all, unsmoothed(WordSplit::k13a))->score / 100,
              g["corpus"]["corpus_sacrebleu_13a"].get<double>(), kNear);
  EXPECT_NEAR(evaluate_chrf(all, kChrf)->score / 100, g["corpus"]["corpus_chrf"].get<double>(), kNear);
  EXPECT_NEAR(evaluate_ter(all, {})->score / 100, g["corpus"]["corpus_ter"].get<double>(), kNear);
}

TEST(Torchmetrics, RetrievalMatches) {
  const Json r = golden()["retrieval"];
  std::vector<RankedDocument> documents;
  Judgements relevant, graded;
  for (size_t i = 0; i < r["scores"].size(); ++i) {
    documents.push_back({std::to_string(i), r["scores"][i]});
    relevant[std::to_string(i)] = r["relevant"][i], graded[std::to_string(i)] = r["graded"][i];
  }
  const RankedQuery q = rank_query(documents, relevant), g = rank_query(documents, graded);
  EXPECT_NEAR(average_precision(q, 0), r["average_precision"].get<double>(), kNear);
  EXPECT_NEAR(reciprocal_rank(q, 0), r["reciprocal_rank"].get<double>(), kNear);
  EXPECT_NEAR(ndcg(g, 0, Gain::kLinear), r["ndcg"].get<double>(), kNear);
  EXPECT_NEAR(ndcg(g, 5, Gain::kLinear), r["ndcg@5"].get<double>(), kNear);
  EXPECT_NEAR(precision_at(q, 3), r["precision@3"].get<double>(), kNear);
  EXPECT_NEAR(recall_at(q, 3), r["recall@3"].get<double>(), kNear);
  EXPECT_NEAR(hit_at(q, 1), r["hit_rate@1"].get<double>(), kNear);
  // One query as a run gives the same numbers.
  RankedRun run;
  run["q"] = documents;
  const auto e = evaluate_ranking(run, {{"q", graded}, {"lost", graded}, {"none", {{"1", 0}}}}, "ndcg@5", {3},
                                  Gain::kLinear);
  ASSERT_TRUE(e.ok());
  EXPECT_NEAR(e->score, r["ndcg@5"].get<double>() / 2, kNear);
  EXPECT_EQ(e->details["queries_missing_in_run"], 1);
  EXPECT_EQ(e->details["queries_without_relevant"], 1);
  EXPECT_FALSE(evaluate_ranking(run, {}, "ndgc@5", {}, Gain::kLinear).ok());
}

}  // namespace
}  // namespace makar
