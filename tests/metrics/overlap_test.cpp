// Sentence scores against those of sacrebleu, and against plain second implementations.
#include "metrics/overlap.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"

namespace makar {
namespace {

double score(Overlap kind, const std::string& hyp, const std::string& ref) {
  return overlap(kind, prepare_overlap(kind, hyp), prepare_overlap(kind, ref));
}

TEST(Overlap, MatchesSacrebleuForEachSentence) {
  std::ifstream file(std::string(MAKAR_TEST_GOLDEN) + "/metrics/sacrebleu.json");
  const Json golden = Json::parse(file);
  int compared = 0;
  for (const Json& s : golden["scores"]) {
    if (s["n_refs"] != 1 || !s.contains("sentences")) continue;
    const std::string name = s["name"];
    if (name != "bleu-effective" && name != "chrf") continue;
    const Overlap kind = name == "chrf" ? Overlap::kChrf : Overlap::kBleu;
    for (size_t i = 0; i < s["sentences"].size(); ++i, ++compared)
      EXPECT_NEAR(100 * score(kind, golden["hyp"][i], golden["refs"][0][i]), s["sentences"][i].get<double>(),
                  1e-9)
          << name << ", sentence " << i;
  }
  EXPECT_EQ(compared, 40);
}

TEST(Overlap, WordsFollowMteval13a) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_13a("Hello, world."), (Words{"Hello", ",", "world", "."}));
  EXPECT_EQ(words_13a("1,000.5 is 5-6% (a/b)"),
            (Words{"1,000.5", "is", "5", "-", "6", "%", "(", "a", "/", "b", ")"}));
  EXPECT_EQ(words_13a("it's &quot;so&quot;.,x"), (Words{"it's", "\"", "so", "\"", ".", ",", "x"}));
}

// The longest common subsequence by brute force.
size_t longest_by_brute_force(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t best = 0;
  for (size_t mask = 0; mask < size_t{1} << a.size(); ++mask) {
    size_t at = 0, length = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(mask >> i & 1)) continue;
      while (at < b.size() && b[at] != a[i]) ++at;
      if (at++ >= b.size()) break;
      ++length;
    }
    if (length == static_cast<size_t>(__builtin_popcountll(mask))) best = std::max(best, length);
  }
  return best;
}

TEST(Overlap, SubsequencesAndSharedWords) {
  const std::string a = "the cat sat on the mat today", b = "on the day the cat was on a mat";
  const auto x = words_13a(a), y = words_13a(b);
  const double lcs = static_cast<double>(longest_by_brute_force(x, y));
  EXPECT_DOUBLE_EQ(score(Overlap::kRougeL, a, b), 2 * lcs / static_cast<double>(x.size() + y.size()));
  // the, the, cat, on, mat
  EXPECT_DOUBLE_EQ(score(Overlap::kF1, a, b), 2 * 5.0 / static_cast<double>(x.size() + y.size()));
}

TEST(Overlap, EqualAndDisjointTexts) {
  for (const char* name : {"bleu", "chrf", "rouge-l", "f1"}) {
    const Overlap kind = *parse_overlap(name, "");
    EXPECT_DOUBLE_EQ(score(kind, "one two three four five", "one two three four five"), 1) << name;
    EXPECT_EQ(score(kind, "abc", "xyz"), 0) << name;
    EXPECT_EQ(score(kind, "", "xyz"), 0) << name;
    EXPECT_EQ(score(kind, "xyz", ""), 0) << name;
  }
  EXPECT_FALSE(parse_overlap("meteor", "--mbr-metric").ok());
}

}  // namespace
}  // namespace makar
