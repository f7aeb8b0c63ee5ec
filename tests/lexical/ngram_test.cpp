// N-gram models against hand-computed cases, sums of probabilities, and KenLM's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/file.h"
#include "lexical/arpa.h"
#include "lexical/corpus.h"
#include "lexical/ngram_generate.h"
#include "lexical/ngram_train.h"

using namespace makar;

namespace {

SentenceNgrams count_ngrams(const std::vector<std::string>& sentences, int order) {
  SentenceNgrams counts(order, size_t{1} << 30);
  WordSplitter splitter({});
  for (const std::string& line : sentences) EXPECT_TRUE(counts.add(splitter.split(line)).ok());
  return counts;
}

NgramModel train_model(const std::vector<std::string>& sentences, int order, const NgramOptions& options) {
  auto model = train_ngrams(count_ngrams(sentences, order), options);
  EXPECT_TRUE(model.ok()) << model.error().text();
  return std::move(*model);
}

double prob(const NgramModel& model, const std::vector<const char*>& context, const char* word) {
  NgramModel::State state = model.start();
  for (const char* w : context)
    if (std::string(w) != kBeginSentence) model.step(state, model.id(w));
  return std::pow(10.0, model.step(state, model.id(word)).log_prob);
}

// The three sentences of Jurafsky and Martin's bigram example.
const std::vector<std::string> kSam = {"I am Sam", "Sam I am", "I do not like green eggs and ham"};

NgramOptions with_smoothing(const char* smoothing) {
  NgramOptions o;
  o.smoothing = smoothing;
  return o;
}

TEST(Ngram, AddKFollowsTheFormula) {
  NgramOptions o = with_smoothing("add-k");
  o.k = 1;
  const NgramModel m = train_model(kSam, 2, o);
  const double v = 12;  // 10 words, </s>, <unk>
  EXPECT_NEAR(prob(m, {"<s>"}, "I"), (2 + 1) / (3 + v), 1e-6);
  EXPECT_NEAR(prob(m, {"<s>"}, "Sam"), (1 + 1) / (3 + v), 1e-6);
  EXPECT_NEAR(prob(m, {"I"}, "am"), (2 + 1) / (3 + v), 1e-6);
  EXPECT_NEAR(prob(m, {"I"}, "ham"), 1 / (3 + v), 1e-6);        // unseen after a seen context
  EXPECT_NEAR(prob(m, {"unheard"}, "ham"), 1 / (0 + v), 1e-6);  // unseen context
  o.k = 0.05;
  const NgramModel three = train_model(kSam, 3, o);
  EXPECT_NEAR(prob(three, {"<s>", "I"}, "am"), (1 + 0.05) / (2 + 0.05 * v), 1e-6);
  EXPECT_NEAR(prob(three, {"<s>", "I"}, "and"), 0.05 / (2 + 0.05 * v), 1e-6);
}

TEST(Ngram, GoodTuringMatchesTheFishExample) {
  // 10 carp, 3 perch, 2 whitefish, 1 trout, 1 salmon, 1 eel.
  const std::vector<uint64_t> n = {0, 3, 1, 1, 0, 0, 0, 0, 0, 0, 1};
  const auto adjusted = good_turing(n, 5);
  EXPECT_NEAR(adjusted[1], 2.0 / 3, 1e-12);
  EXPECT_NEAR(adjusted[2], 3.0, 1e-12);
  EXPECT_EQ(adjusted[3], 3);  // no fish occurs four times
}

TEST(Ngram, KatzDiscountsFollowTheFormula) {
  // d_r = (r*/r - A) / (1 - A) with A = (k + 1) n_{k+1} / n_1; Katz (1987), equation 15.
  const std::vector<uint64_t> n = {0, 100, 40, 20, 12};
  const auto d = katz_discounts(n, 3);
  const double a = 4.0 * 12 / 100;
  EXPECT_NEAR(d[1], (2.0 * 40 / 100 - a) / (1 - a), 1e-12);
  EXPECT_NEAR(d[2], (3.0 * 20 / 40 / 2 - a) / (1 - a), 1e-12);
  EXPECT_NEAR(d[3], (4.0 * 12 / 20 / 3 - a) / (1 - a), 1e-12);
}

TEST(Ngram, KneserNeyDiscountsFollowTheFormula) {
  const auto d = kneser_ney_discounts({0, 100, 40, 20, 12});
  ASSERT_TRUE(d.has_value());
  const double y = 100.0 / 180;
  EXPECT_NEAR((*d)[1], 1 - 2 * y * 40 / 100, 1e-12);
  EXPECT_NEAR((*d)[2], 2 - 3 * y * 20 / 40, 1e-12);
  EXPECT_NEAR((*d)[3], 3 - 4 * y * 12 / 20, 1e-12);
  EXPECT_FALSE(kneser_ney_discounts({0, 5, 1, 0, 0}).has_value());
}

TEST(Ngram, ProbabilitiesSumToOneEverywhere) {
  std::vector<std::string> text;
  for (int i = 0; i < 200; ++i) {
    std::string line;
    for (int j = 0; j < 3 + i % 5; ++j)
      line += std::string(j ? " " : "") + static_cast<char>('a' + (i * 7 + j * j * 3 + i / 9) % (3 + i % 17));
    text.push_back(line);
  }
  for (const char* smoothing : {"kneser-ney", "katz", "good-turing", "add-k"})
    for (const bool prune : {false, true}) {
      NgramOptions o = with_smoothing(smoothing);
      if (prune && o.smoothing == "add-k") continue;
      if (prune) o.prune = {0, 0, 1};
      const NgramModel m = train_model(text, 3, o);
      const auto index = m.by_prefix();
      for (const auto& context :
           std::vector<std::vector<const char*>>{{}, {"a"}, {"b", "a"}, {"a", "zzz"}, {"c", "d"}}) {
        NgramModel::State state = m.start();
        for (const char* w : context) m.step(state, m.id(w));
        std::vector<double> probs;
        m.distribution(state, index, probs);
        double sum = 0;
        for (uint32_t w = 0; w < probs.size(); ++w) {
          sum += probs[w];
          NgramModel::State copy = state;
          if (w != m.begin() && probs[w] > 1e-30)
            EXPECT_NEAR(probs[w], std::pow(10.0, m.step(copy, w).log_prob), 1e-6 * probs[w] + 1e-12);
        }
        EXPECT_NEAR(sum, 1, 2e-5) << smoothing << " " << prune << " after " << context.size();
      }
    }
}

// tests/lexical/fables.arpa.gz: lmplz -o 3 of KenLM on the lines of recipes/data/fables.txt.
TEST(Ngram, KneserNeyMatchesKenLm) {
  const std::string text = *read_file(MAKAR_SOURCE_DIR "/recipes/data/fables.txt");
  SentenceNgrams counts(3, size_t{1} << 30);
  WordSplitter splitter({});
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto& words = splitter.split(std::string_view(text).substr(at, end - at));
    if (!words.empty()) ASSERT_TRUE(counts.add(words).ok());
    at = end + 1;
  }
  const auto model = train_ngrams(std::move(counts), {});
  ASSERT_TRUE(model.ok());
  const auto kenlm = load_arpa(MAKAR_SOURCE_DIR "/tests/lexical/fables.arpa.gz");
  ASSERT_TRUE(kenlm.ok()) << kenlm.error().text();
  ASSERT_EQ(model->order(), kenlm->order());
  for (int k = 1; k <= 3; ++k) {
    ASSERT_EQ(model->level(k).table.size(), kenlm->level(k).table.size());
    std::vector<uint32_t> ids(static_cast<size_t>(k));
    for (uint32_t i = 0; i < kenlm->level(k).table.size(); ++i) {
      uint32_t at = i, id = 0;
      for (int j = k; j >= 1; at = kenlm->level(j).table.prefix(at), --j)
        ids[static_cast<size_t>(j - 1)] = model->id(kenlm->words().word(kenlm->level(j).table.word(at)));
      id = ids[0];
      for (int j = 2; j <= k; ++j) id = model->level(j).table.find(id, ids[static_cast<size_t>(j - 1)]);
      ASSERT_NE(id, NgramTable::kNone);
      if (!(k == 1 && ids[0] == model->begin()))
        ASSERT_NEAR(model->level(k).log_prob[id], kenlm->level(k).log_prob[i], 2e-5) << k;
      if (k < 3) ASSERT_NEAR(model->level(k).log_backoff[id], kenlm->level(k).log_backoff[i], 2e-5) << k;
    }
  }
}

TEST(Ngram, ArpaReadsBackTheSameBytes) {
  const NgramModel m = train_model(kSam, 3, with_smoothing("katz"));
  std::string first, second;
  const auto to = [](std::string& out) {
    return [&out](std::string_view text) -> Status { return out += text, Done{}; };
  };
  ASSERT_TRUE(write_arpa(m, to(first)).ok());
  const auto read = read_arpa(LineReader(std::move(*ByteStream::from_memory(first, "x"))));
  ASSERT_TRUE(read.ok()) << read.error().text();
  ASSERT_TRUE(write_arpa(*read, to(second)).ok());
  EXPECT_EQ(first, second);
}

TEST(Ngram, BrokenArpaIsAnErrorWithItsLine) {
  const std::string good =
      "\\data\\\nngram 1=4\nngram "
      "2=1\n\n\\1-grams:\n-1\t<unk>\n-1\t<s>\t-0.1\n-1\t</s>\n-1\ta\n\n\\2-grams:\n-0.5\t<s> a\n\n\\end\\\n";
  const auto fails = [&](const std::string& from, const std::string& to, const char* message) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto read = read_arpa(LineReader(std::move(*ByteStream::from_memory(text, "m.arpa"))));
    ASSERT_FALSE(read.ok()) << to;
    EXPECT_NE(read.error().text().find(message), std::string::npos) << read.error().text();
  };
  ASSERT_TRUE(read_arpa(LineReader(std::move(*ByteStream::from_memory(good, "m.arpa")))).ok());
  fails("ngram 1=4", "ngram 1=5", "m.arpa:11");
  fails("ngram 2=1", "ngram 3=1", "ngram 2=COUNT");
  fails("-0.5\t<s> a", "-0.5\t<s> b", "not a word");
  fails("-0.5\t<s> a", "0.5\t<s> a", "at most 0");
  fails("-0.5\t<s> a", "nan\t<s> a", "at most 0");
  fails("-1\ta", "-1\t<s>", "twice");
  fails("\\end\\", "", "end of the file");
  fails("ngram 1=4", "ngram 1=99999999999", "the limits are");
  fails("\\data\\", "data", "\\data\\");
}

TEST(Ngram, ScoresAndGenerates) {
  const NgramModel m = train_model(kSam, 2, {});
  WordSplitter splitter({});
  const NgramScore s = score_sentence(m, splitter.split("I am Pam"));
  EXPECT_EQ(s.words, 3u);
  EXPECT_EQ(s.unknown, 1u);
  double sum = std::log10(prob(m, {"<s>"}, "I")) + std::log10(prob(m, {"I"}, "am")) +
               std::log10(prob(m, {"am"}, "Pam")) + std::log10(prob(m, {"Pam"}, "</s>"));
  EXPECT_NEAR(s.log_prob, sum, 1e-6);
  EXPECT_NEAR(s.perplexity(), std::pow(10.0, -sum / 4), 1e-4);
  NgramGenerator generator(m);
  NgramSampling sampling;
  const auto a = generator.generate({}, sampling, 3), b = NgramGenerator(m).generate({}, sampling, 3);
  EXPECT_EQ(a, b);
  sampling.temperature = 0;
  const auto greedy = generator.generate({"do"}, sampling, 0);
  ASSERT_FALSE(greedy.empty());
  EXPECT_EQ(greedy[0], "not");
}

// Draws follow the distribution: chi-square of 4000 first words.
TEST(Ngram, DrawsFollowTheDistribution) {
  const NgramModel m = train_model(kSam, 2, with_smoothing("katz"));
  NgramGenerator generator(m);
  NgramSampling sampling;
  sampling.max_words = 1;
  std::map<std::string, double> seen;
  const int draws = 4000;
  for (int i = 0; i < draws; ++i) {
    const auto words = generator.generate({}, sampling, static_cast<uint64_t>(i));
    seen[words.empty() ? "</s>" : words[0]] += 1;
  }
  double sum = 0, square = 0;
  for (const std::string& w : m.words().words())
    if (w != "<unk>" && w != "<s>") sum += prob(m, {"<s>"}, w.c_str());
  int cells = 0;
  for (const std::string& w : m.words().words()) {
    if (w == "<unk>" || w == "<s>") continue;
    const double expected = draws * prob(m, {"<s>"}, w.c_str()) / sum;
    square += (seen[w] - expected) * (seen[w] - expected) / expected, ++cells;
  }
  EXPECT_LT(square, cells + 5 * std::sqrt(2.0 * cells));
}

TEST(Ngram, MemoryIsBounded) {
  SentenceNgrams counts(5, 1 << 16);
  Status status = Done{};
  for (int i = 0; i < 10000 && status.ok(); ++i) {
    const std::string word = "w" + std::to_string(i);
    const std::string_view view = word;
    status = counts.add({&view, 1});
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, Error::Kind::kLimit);
}

}  // namespace
