// Overlaps against the corpus metrics and against brute force.
#include "metrics/overlap.h"

#include <gtest/gtest.h>

#include "metrics/chrf.h"

namespace makar {
namespace {

double score(Overlap kind, const std::string& hyp, const std::string& ref) {
  return overlap(kind, prepare_overlap(kind, hyp), prepare_overlap(kind, ref));
}

TEST(Overlap, MatchesTheMetricsOfOneSentence) {
  const std::string hyp = "the cat sat, on the mat today.", ref = "on the day, the cat sat on a mat.";
  BleuOptions bleu;
  bleu.effective_order = true;
  EXPECT_DOUBLE_EQ(100 * score(Overlap::kBleu, hyp, ref), evaluate_bleu({{hyp, {ref}}}, bleu)->score);
  EXPECT_DOUBLE_EQ(100 * score(Overlap::kChrf, hyp, ref), evaluate_chrf({{hyp, {ref}}}, {})->score);
}

TEST(Overlap, WordsFollowMteval13a) {
  const auto words_13a = [](const char* text) { return split_words(WordSplit::k13a, text); };
  EXPECT_EQ(words_13a("Hello, world."), (WordList{"Hello", ",", "world", "."}));
  EXPECT_EQ(words_13a("1,000.5 is 5-6% (a/b)"),
            (WordList{"1,000.5", "is", "5", "-", "6", "%", "(", "a", "/", "b", ")"}));
  EXPECT_EQ(words_13a("it's &quot;so&quot;.,x"), (WordList{"it's", "\"", "so", "\"", ".", ",", "x"}));
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

TEST(Overlap, SubsequencesAndSharedWordsMatchBruteForce) {
  const std::string a = "the cat sat on the mat today", b = "on the day the cat was on a mat";
  const WordList x = split_words(WordSplit::k13a, a), y = split_words(WordSplit::k13a, b);
  const double lcs = static_cast<double>(longest_by_brute_force(x, y));
  EXPECT_DOUBLE_EQ(score(Overlap::kRougeL, a, b), 2 * lcs / static_cast<double>(x.size() + y.size()));
  // the, the, cat, on, mat
  EXPECT_DOUBLE_EQ(score(Overlap::kF1, a, b), 2 * 5.0 / static_cast<double>(x.size() + y.size()));
}

TEST(Overlap, EqualTextsGiveOneAndDisjointTextsZero) {
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
