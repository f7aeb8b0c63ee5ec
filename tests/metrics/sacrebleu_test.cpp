// Scores and signatures against those of sacrebleu, for the corpus and for every sentence.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "metrics/ter.h"

namespace makar {
namespace {

Segments segments_of(const Json& golden, size_t references) {
  Segments out;
  for (size_t i = 0; i < golden["hyp"].size(); ++i) {
    Segment s{golden["hyp"][i], {}};
    for (size_t r = 0; r < references; ++r) s.references.push_back(golden["refs"][r][i]);
    out.push_back(std::move(s));
  }
  return out;
}

BleuOptions bleu_options(const Json& o) {
  BleuOptions out;
  out.words = *parse_word_split(o.value("tokenize", "13a"), "");
  out.lowercase = o.value("lowercase", false), out.effective_order = o.value("effective_order", false);
  out.smoothing = *parse_smoothing(o.value("smooth_method", "exp"), "");
  if (o.contains("smooth_value") && o["smooth_value"].is_number()) out.smooth_value = o["smooth_value"];
  out.order = o.value("max_ngram_order", 4);
  return out;
}

Result<Evaluation> evaluate(const Json& score, const Segments& segments) {
  const Json& o = score["options"];
  if (score["kind"] == "bleu") return evaluate_bleu(segments, bleu_options(o));
  if (score["kind"] == "chrf")
    return evaluate_chrf(segments, {o.value("char_order", 6), o.value("word_order", 0), o.value("beta", 2.0),
                                    o.value("lowercase", false), o.value("whitespace", false),
                                    o.value("eps_smoothing", false)});
  return evaluate_ter(segments, {o.value("normalized", false), o.value("no_punct", false),
                                 o.value("asian_support", false), o.value("case_sensitive", false)});
}

TEST(Sacrebleu, ScoresAndSignaturesMatch) {
  const auto golden = read_json(std::string(MAKAR_TEST_GOLDEN) + "/metrics/sacrebleu.json");
  ASSERT_TRUE(golden.ok()) << golden.error().text();
  EXPECT_EQ((*golden)["sacrebleu"], kSacrebleuVersion);
  int compared = 0;
  for (const Json& s : (*golden)["scores"]) {
    const auto evaluation = evaluate(s, segments_of(*golden, s["n_refs"]));
    ASSERT_TRUE(evaluation.ok()) << evaluation.error().text();
    EXPECT_NEAR(evaluation->score, s["score"].get<double>(), 1e-9) << s["signature"];
    EXPECT_EQ(evaluation->signature, s["signature"]);
    ASSERT_EQ(evaluation->unit_scores.size(), s["sentences"].size());
    for (size_t i = 0; i < evaluation->unit_scores.size(); ++i, ++compared)
      EXPECT_NEAR(evaluation->unit_scores[i], s["sentences"][i].get<double>(), 1e-6)
          << s["kind"] << " " << s["options"] << " sentence " << i << ": " << (*golden)["hyp"][i] << " / "
          << (*golden)["refs"][0][i];
  }
  EXPECT_GT(compared, 1500);
}

// The shared fixture has sentences of a corpus, which is not part of this repository.
TEST(Sacrebleu, ScoresMatchTheSharedFixture) {
  const char* assets = std::getenv("MAKAR_ASSETS");
  const std::string path =
      assets ? std::string(assets) + "/../golden/metrics/sacrebleu.json"
             : std::string(MAKAR_TEST_GOLDEN) + "/../../../shared/golden/metrics/sacrebleu.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const auto golden = read_json(path);
  ASSERT_TRUE(golden.ok()) << golden.error().text();
  int compared = 0;
  for (const Json& s : (*golden)["scores"]) {
    const std::string name = s["name"], signature = s["signature"];
    Json o = Json::object();
    const auto setting = [&](const std::string& key) {
      const size_t at = signature.find(key + ":");
      if (at == std::string::npos) return std::string();
      const size_t begin = at + key.size() + 1;
      return signature.substr(begin, std::min(signature.find('|', begin), signature.size()) - begin);
    };
    if (name.starts_with("bleu"))
      o = {{"kind", "bleu"},
           {"options",
            {{"tokenize", setting("tok")},
             {"lowercase", setting("case") == "lc"},
             {"effective_order", setting("eff") == "yes"},
             {"smooth_method", setting("smooth").substr(0, setting("smooth").find('['))},
             {"max_ngram_order", name == "bleu-max2" ? 2 : 4}}}};
    else if (name.starts_with("chrf"))
      o = {{"kind", "chrf"}, {"options", {{"word_order", std::stoi(setting("nw"))}}}};
    else
      o = {{"kind", "ter"},
           {"options",
            {{"normalized", setting("norm") == "yes"},
             {"no_punct", setting("punct") == "no"},
             {"asian_support", setting("asian") == "yes"}}}};
    const auto evaluation = evaluate(o, segments_of(*golden, s["n_refs"]));
    ASSERT_TRUE(evaluation.ok()) << evaluation.error().text();
    EXPECT_NEAR(evaluation->score, s["score"].get<double>(), 1e-9) << name;
    EXPECT_EQ(evaluation->signature, signature);
    for (size_t i = 0; s["sentences"].is_array() && i < s["sentences"].size(); ++i, ++compared)
      EXPECT_NEAR(evaluation->unit_scores[i], s["sentences"][i].get<double>(), 1e-6)
          << name << ", sentence " << i;
  }
  EXPECT_GT(compared, 200);
}

// sacrebleu normalizes references twice: only after the first time is the blank after "t's" a plain space, so
// that the second time splits off 's. The hypothesis has one of the three words of "t 's strasse".
TEST(Sacrebleu, TerNormalizesReferencesTwice) {
  const auto ter = evaluate_ter({{"STRASSE", {"t's\u2003STRASSE"}}}, {.normalized = true});
  ASSERT_TRUE(ter.ok());
  EXPECT_NEAR(ter->score, 200.0 / 3, 1e-9);
}

TEST(Sacrebleu, HostileLinesAreBounded) {
  std::string a, b;
  for (int i = 0; i < 200000; ++i)
    a += fmt::format("w{} ", i * 7 % 5003), b += fmt::format("w{} ", i * 11 % 5003);
  const auto ter = evaluate_ter({{a, {b}}}, {});
  ASSERT_FALSE(ter.ok());
  EXPECT_EQ(ter.error().kind, Error::Kind::kLimit);
  EXPECT_NE(ter.error().text().find("line 1"), std::string::npos) << ter.error().text();
  // Metrics of linear cost accept such lines.
  EXPECT_TRUE(evaluate_bleu({{a, {b}}}, {}).ok());
  std::string entities;
  for (int i = 0; i < 100000; ++i) entities += "&amp;.";
  EXPECT_TRUE(evaluate_bleu({{entities, {entities}}}, {}).ok());
}

}  // namespace
}  // namespace makar
