// Trainers: exactness against small references, limits, determinism.
#include "text/train/train.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "text/tokenizer.h"

namespace makar {
namespace {

std::string write_temporary(const std::string& name, const std::string& bytes) {
  const auto path =
      std::filesystem::temp_directory_path() / ("makar_train_" + std::to_string(::getpid()) + name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

TrainSettings settings(const char* pipeline, TrainSettings::Model model, size_t vocab) {
  TrainSettings s;
  s.model = model;
  s.vocab_size = vocab;
  s.pipeline = *TrainPipeline::named(pipeline, s.special_tokens);
  s.max_memory = size_t{256} << 20;
  return s;
}

Result<TrainReport> train(const std::string& path, const TrainSettings& s, int threads = 1) {
  ThreadPool pool(threads);
  CorpusOptions options;
  options.paths = {path};
  auto corpus = Corpus::open(options);
  if (!corpus.ok()) return corpus.error();
  return train_tokenizer(*corpus, s, pool);
}

// Pseudo-words with a skewed distribution.
std::string synthetic(size_t words) {
  std::string out;
  uint64_t x = 88172645463325252u;
  for (size_t i = 0; i < words; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    const uint64_t rank = (x % 5000) * (x >> 40 & 63) / 64;
    for (uint64_t r = rank + 7; r; r /= 11) out += static_cast<char>('a' + r % 11 + (r % 3));
    out += i % 9 == 8 ? '\n' : ' ';
  }
  return out;
}

TEST(BpeTrainer, MatchesAHandComputedExample) {
  // "re" occurs 3 times, then "are" and "is" twice each: the smaller pair of ids is merged first.
  const std::vector<WordCount> words = {{"are", 2}, {"is", 2}, {"red", 1}, {"roses", 1}, {"so", 1}};
  BpeSettings t;
  t.vocab_size = 100;
  t.min_frequency = 2;
  const auto trained = train_bpe(words, t);
  ASSERT_TRUE(trained.ok()) << trained.error().text();
  const std::vector<std::string> expected = {"a", "d", "e", "i", "o", "r", "s", "re", "are", "is"};
  EXPECT_EQ(trained->tokens, expected);
  ASSERT_EQ(trained->merges.size(), 3u);
}

TEST(BpeTrainer, OverlapsAndLimits) {
  BpeSettings t;
  t.vocab_size = 10;
  auto trained = train_bpe({{"aaaa", 3}, {"aaa", 2}}, t);
  ASSERT_TRUE(trained.ok());
  EXPECT_EQ(trained->tokens[1], "aa");
  t.max_token_length = 2;
  trained = train_bpe({{"abab", 3}}, t);
  ASSERT_TRUE(trained.ok());
  for (const auto& token : trained->tokens) EXPECT_LE(token.size(), 2u);
  t.vocab_size = 1;
  EXPECT_FALSE(train_bpe({{"abc", 1}}, t).ok());
  EXPECT_TRUE(train_bpe({}, t).ok());
}

TEST(WordPieceTrainer, MergesByLikelihood) {
  // The example of the Hugging Face course: hug 10, pug 5, pun 12, bun 4, hugs 5: the first merge by
  // likelihood is (##g, ##s).
  BpeSettings t;
  t.vocab_size = 14;
  t.continuing_prefix = "##";
  t.score_by_likelihood = true;
  const auto trained = train_bpe({{"hug", 10}, {"pug", 5}, {"pun", 12}, {"bun", 4}, {"hugs", 5}}, t);
  ASSERT_TRUE(trained.ok());
  ASSERT_FALSE(trained->merges.empty());
  const auto [left, right] = trained->merges[0];
  EXPECT_EQ(trained->tokens[left] + " " + trained->tokens[right], "##g ##s");
  EXPECT_EQ(std::count(trained->tokens.begin(), trained->tokens.end(), "##gs"), 1);
}

TEST(UnigramTrainer, KeepsAllCharacters) {
  ThreadPool pool(2);
  UnigramSettings t;
  t.vocab_size = 40;
  std::vector<WordCount> words;
  for (const char* w :
       {"hello", "hell", "help", "helper", "shell", "yellow", "low", "lower", "slow", "slower"})
    words.push_back({w, 10});
  const auto trained = train_unigram(words, t, pool);
  ASSERT_TRUE(trained.ok()) << trained.error().text();
  EXPECT_LE(trained->pieces.size(), 40u);
  for (const char c : std::string("helopwrsy"))
    EXPECT_TRUE(std::any_of(trained->pieces.begin(), trained->pieces.end(), [&](const auto& p) {
      return p.first == std::string(1, c);
    })) << c;
  t.vocab_size = 3;
  EXPECT_FALSE(train_unigram(words, t, pool).ok());
}

TEST(TrainTokenizer, SameForAnyThreadCount) {
  const std::string path = write_temporary("threads", synthetic(60'000));
  for (const auto& [pipeline, model] : {std::pair{"byte-level", TrainSettings::Model::kBpe},
                                        {"bert", TrainSettings::Model::kWordPiece},
                                        {"metaspace", TrainSettings::Model::kUnigram},
                                        {"whitespace", TrainSettings::Model::kWord}}) {
    const auto one_thread = train(path, settings(pipeline, model, 600), 1),
               three_threads = train(path, settings(pipeline, model, 600), 3);
    ASSERT_TRUE(one_thread.ok()) << one_thread.error().text();
    ASSERT_TRUE(three_threads.ok());
    EXPECT_EQ(one_thread->tokenizer.dump(), three_threads->tokenizer.dump()) << pipeline;
    const auto tokenizer = Tokenizer::from_json(one_thread->tokenizer, "trained");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  }
}

TEST(TrainTokenizer, SpillingGivesTheSameResult) {
  // One megabyte of table for many distinct words: runs are written to disk, the counts stay exact.
  std::string text;
  for (int i = 0; i < 150'000; ++i)
    text += "word" + std::to_string(i * 7919 % 100'003) + (i % 10 == 9 ? "\n" : " ");
  const std::string path = write_temporary("spill", text);
  CorpusOptions options;
  options.paths = {path};
  ThreadPool pool(2);
  const auto count = [&](size_t table) {
    std::vector<WordCounter> counters;
    counters.emplace_back(table, std::filesystem::temp_directory_path().string());
    counters.emplace_back(table, std::filesystem::temp_directory_path().string());
    size_t turn = 0, at = 0;
    while (at < text.size()) {
      const size_t end = text.find_first_of(" \n", at);
      EXPECT_TRUE(counters[turn++ % 2].add(std::string_view(text).substr(at, end - at)).ok());
      at = end + 1;
    }
    return WordCounter::finish(counters, size_t{1} << 30);
  };
  const auto in_memory = count(size_t{1} << 30), spilled = count(1 << 18);
  ASSERT_TRUE(in_memory.ok() && spilled.ok());
  EXPECT_EQ(in_memory->runs, 0u);
  EXPECT_GT(spilled->runs, 4u);
  ASSERT_EQ(in_memory->words.size(), spilled->words.size());
  for (size_t i = 0; i < in_memory->words.size(); ++i) {
    ASSERT_EQ(in_memory->words[i].word, spilled->words[i].word);
    ASSERT_EQ(in_memory->words[i].count, spilled->words[i].count);
  }
}

TEST(TrainTokenizer, RarestWordsAreDroppedWhenMemoryIsShort) {
  std::vector<WordCounter> counters;
  counters.emplace_back(size_t{1} << 30, "/tmp");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(counters[0].add("w" + std::to_string(i), i < 10 ? 50 : 1).ok());
  const auto counts = WordCounter::finish(counters, 2000);
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->words.size(), 10u);
  EXPECT_EQ(counts->dropped_words, 990u);
  EXPECT_EQ(counts->total, 10u * 50 + 990);
}

TEST(Corpus, HostileFilesAreAcceptedOrLocatedErrors) {
  ThreadPool pool(1);
  const auto corpus_of = [](const std::string& path, bool jsonl = false) {
    CorpusOptions o;
    o.paths = {path};
    o.jsonl = jsonl;
    return Corpus::open(o);
  };
  EXPECT_FALSE(corpus_of("/nonexistent/file").ok());
  EXPECT_FALSE(corpus_of("/tmp").ok());
  // Bytes that are not UTF-8, NUL bytes and a line of 3 MiB are accepted as text.
  const std::string path =
      write_temporary("hostile", std::string("ab\xff\xfe\0cd\n", 8) + std::string(3 << 20, 'x') + "\n\n");
  const auto report = train(path, settings("byte-level", TrainSettings::Model::kBpe, 300));
  ASSERT_TRUE(report.ok()) << report.error().text();
  // A broken record is a located error.
  const std::string bad = write_temporary("bad.jsonl", "{\"text\": \"fine\"}\n{\"text\": 5}\n");
  const auto broken = train(bad, settings("byte-level", TrainSettings::Model::kBpe, 300));
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().text().find(":2"), std::string::npos) << broken.error().text();
  EXPECT_FALSE(
      train(write_temporary("empty", ""), settings("byte-level", TrainSettings::Model::kBpe, 300)).ok());
  EXPECT_FALSE(TrainPipeline::named("byte-levle", {}).ok());
}

TEST(Corpus, SampleIsAShareChosenByTheSeed) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "line " + std::to_string(i) + "\n";
  CorpusOptions o;
  o.paths = {write_temporary("sample", text)};
  o.sample = 0.25;
  const auto lines = [&](uint64_t seed) {
    o.seed = seed;
    auto corpus = Corpus::open(o);
    SequenceBlock block;
    std::string sampled;
    while (*corpus->next(block)) sampled += block.bytes;
    return sampled;
  };
  const std::string a = lines(1);
  EXPECT_EQ(a, lines(1));
  EXPECT_NE(a, lines(2));
  EXPECT_NEAR(static_cast<double>(std::count(a.begin(), a.end(), '\n')), 2500, 200);
}

}  // namespace
}  // namespace makar
