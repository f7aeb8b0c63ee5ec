// Word vectors: the same bits for any number of threads, the losses on a text whose structure is known, file
// formats, counts.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/file.h"
#include "lexical/count_vectors.h"
#include "lexical/glove.h"
#include "lexical/vector_files.h"
#include "lexical/vector_map.h"
#include "lexical/word2vec.h"
#include "lexical/word_sampling.h"
#include "scratch_folder.h"

using namespace makar;

namespace {

// Two topics whose words never co-occur: words of one topic occur in the same contexts.
std::string two_topics(int lines) {
  const std::vector<std::string> a = {"cat", "dog", "horse", "cow", "sheep"},
                                 b = {"red", "green", "blue", "white", "black"};
  std::string out;
  const Rng rng(7, Purpose::kSynthetic);
  for (int i = 0; i < lines; ++i) {
    const auto& topic = i % 2 ? a : b;
    for (uint64_t j = 0; j < 8; ++j) out += topic[rng.bits(static_cast<uint64_t>(i) * 8 + j)[0] % 5] + " ";
    out += "\n";
  }
  return out;
}

WordStream stream_of(const std::string& text, int64_t min_count = 1) {
  ScratchFolder folder;
  auto read = read_words({folder.write("text.txt", text)}, {}, min_count, 0, [](uint64_t, size_t) {});
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().text());
  return std::move(*read);
}

bool same(const WordVectors& a, const WordVectors& b) {
  if (a.words.words() != b.words.words() || a.width != b.width) return false;
  for (size_t i = 0; i < a.words.size(); ++i)
    if (std::memcmp(a.rows.row(i), b.rows.row(i), a.width * sizeof(float)) != 0) return false;
  return true;
}

// Expects the four nearest words of each word to be of its topic.
void expect_topics(const WordVectors& v, const std::string& what) {
  const VectorIndex index(v);
  const std::set<std::string> a = {"cat", "dog", "horse", "cow", "sheep"};
  for (uint32_t i = 0; i < v.words.size(); ++i)
    for (const Neighbor& n : index.nearest(index.unit(i), 4, {i}))
      EXPECT_EQ(a.contains(v.words.word(i)), a.contains(v.words.word(n.word)))
          << what << " " << v.words.word(i);
}

TEST(Vectors, EveryLossSeparatesTopics) {
  const WordStream text = stream_of(two_topics(600));
  ThreadPool pool(2);
  for (const char* model : {"skipgram", "cbow"})
    for (const char* loss : {"ns", "hs", "softmax"})
      for (const bool fast : {false, true}) {
        Word2VecOptions o;
        o.model = model, o.loss = loss, o.width = 10, o.subsample = 0, o.epochs = 20, o.fast = fast;
        double first = 0, last = 0;
        const auto v = train_word2vec(text, o, pool, [&](const VectorProgress& p) {
          if (p.loss > 0) first = first == 0 ? p.loss : first, last = p.loss;
        });
        ASSERT_TRUE(v.ok());
        EXPECT_LT(last, first) << model << loss;
        expect_topics(*v, std::string(model) + " " + loss);
      }
}

TEST(Vectors, BitsDoNotDependOnThreads) {
  // Long enough for rounds of several chunks.
  const WordStream text = stream_of(two_topics(40000));
  ASSERT_GT(text.tokens, 300000u);
  const auto nothing = [](const VectorProgress&) {};
  for (const char* model : {"skipgram", "cbow"}) {
    Word2VecOptions o;
    o.model = model, o.width = 20, o.epochs = 1, o.max_ngram = 4, o.buckets = 1000;
    ThreadPool one(1), three(3);
    const auto a = train_word2vec(text, o, one, nothing), b = train_word2vec(text, o, three, nothing);
    EXPECT_TRUE(same(*a, *b));
    expect_topics(*a, "rounds");
    o.seed = 2;
    EXPECT_FALSE(same(*a, *train_word2vec(text, o, three, nothing)));
  }
}

TEST(Vectors, SoftmaxLearnsConditionalProbabilities) {
  // After "a" comes "b" three times out of four; with the full softmax and width 10 the loss tends to the
  // entropy.
  std::string text;
  for (int i = 0; i < 500; ++i) text += i % 4 ? "a b\n" : "a c\n";
  const WordStream stream = stream_of(text);
  Word2VecOptions o;
  o.loss = "softmax", o.width = 10, o.subsample = 0, o.window = 1, o.epochs = 60, o.learning_rate = 0.2;
  ThreadPool pool(1);
  double last = 0;
  ASSERT_TRUE(train_word2vec(stream, o, pool, [&](const VectorProgress& p) { last = p.loss; }).ok());
  const double entropy = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25));
  EXPECT_NEAR(last, entropy / 2, 0.02);  // half of the pairs are (b, a) and (c, a), which are certain
}

// Rounds of eight chunks over few, very frequent words: a sum of the chunks' changes would diverge.
TEST(Vectors, LargeRoundsStayFinite) {
  const WordStream text = stream_of(two_topics(110000));
  ASSERT_GT(text.tokens, 800000u);
  Word2VecOptions o;
  o.width = 16, o.epochs = 1, o.subsample = 0;
  ThreadPool pool(2);
  double last = 0;
  const auto v = train_word2vec(text, o, pool, [&](const VectorProgress& p) { last = p.loss; });
  EXPECT_TRUE(std::isfinite(last)) << last;
  for (size_t i = 0; i < v->words.size(); ++i)
    for (size_t j = 0; j < v->width; ++j) ASSERT_LT(std::fabs(v->rows.row(i)[j]), 100);
  expect_topics(*v, "large rounds");
}

TEST(Vectors, CharacterNgramsHashAsInFastText) {
  Word2VecOptions o;
  o.min_ngram = 3, o.max_ngram = 3, o.buckets = 1000;
  // <ab, ab>: FNV-1a of three bytes each.
  const auto rows = word_rows("ab", 5, 10, o);
  const auto hash = [](const std::string& s) {
    uint32_t h = 2166136261u;
    for (const char c : s) h = (h ^ static_cast<uint32_t>(static_cast<int8_t>(c))) * 16777619u;
    return h;
  };
  EXPECT_EQ(rows, (std::vector<uint32_t>{5, 10 + hash("<ab") % 1000, 10 + hash("ab>") % 1000}));
  // A character of two bytes counts once: <é>, as one n-gram.
  EXPECT_EQ(word_rows("é", 0, 10, o).size(), 2u);
}

TEST(Vectors, VectorsLargerThanMemoryAreAnError) {
  Word2VecOptions o;
  o.max_ngram = 6, o.buckets = 100'000'000, o.width = 10'000;
  ThreadPool pool(1);
  const auto v = train_word2vec(stream_of("a b\n"), o, pool, [](const VectorProgress&) {});
  ASSERT_FALSE(v.ok());
  EXPECT_NE(v.error().text().find("lower `dim`, `bucket`"), std::string::npos) << v.error().text();
}

TEST(Vectors, HuffmanCodesArePrefixFreeAndOptimal) {
  const auto paths = huffman_paths({45, 13, 12, 16, 9, 5});
  size_t bits = 0;
  const uint64_t counts[] = {45, 13, 12, 16, 9, 5};
  std::set<std::vector<bool>> codes;
  for (size_t i = 0; i < paths.size(); ++i)
    bits += counts[i] * paths[i].right.size(), codes.insert(paths[i].right);
  EXPECT_EQ(bits, 224u);  // Cormen et al., figure 16.5
  EXPECT_EQ(codes.size(), 6u);
  double kraft = 0;
  for (const auto& p : paths) kraft += std::pow(0.5, static_cast<double>(p.right.size()));
  EXPECT_EQ(kraft, 1);
}

TEST(Vectors, AliasTableDrawsInProportion) {
  const std::vector<double> weights = {1, 0.5, 4, 0, 2.5};
  const AliasTable table(weights);
  FastRandom random(1, 0, 0);
  std::vector<int> draws(5);
  for (int i = 0; i < 80000; ++i) ++draws[table.draw(random)];
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(draws[i], weights[i] / 8 * 80000, 400);
}

TEST(Vectors, CooccurrencesDoNotDependOnMemory) {
  const WordStream text = stream_of(two_topics(300));
  CooccurrenceOptions o;
  o.window = 5;
  const auto large = count_cooccurrences(text, o);
  o.max_bytes = 1;  // a run for every few hundred pairs
  const auto small = count_cooccurrences(text, o);
  ASSERT_TRUE(large.ok() && small.ok());
  const auto a = large->as<const Cooccurrence>(), b = small->as<const Cooccurrence>();
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(0, std::memcmp(a.data(), b.data(), a.size_bytes()));
}

TEST(Vectors, CooccurrencesAreWeightedByDistance) {
  const WordStream text = stream_of("a b c a\nb\n");
  CooccurrenceOptions o;
  const auto pairs = count_cooccurrences(text, o);
  ASSERT_TRUE(pairs.ok());
  std::map<std::string, float> got;
  for (const Cooccurrence& c : pairs->as<const Cooccurrence>())
    got[text.words.word(c.word) + text.words.word(c.context)] = c.count;
  EXPECT_FLOAT_EQ(got["ab"], 1 + 0.5f);
  EXPECT_FLOAT_EQ(got["ac"], 0.5f + 1);
  EXPECT_FLOAT_EQ(got["aa"], 2.0f / 3);  // both orders of the one pair
  EXPECT_FLOAT_EQ(got["bc"], 1);
  EXPECT_EQ(got.size(), 7u);
}

TEST(Vectors, GloveSeparatesTopicsWithAnyThreads) {
  const WordStream text = stream_of(two_topics(600));
  const auto pairs = count_cooccurrences(text, {});
  GloveOptions o;
  o.width = 8, o.epochs = 60;
  ThreadPool one(1), three(3);
  const auto nothing = [](const VectorProgress&) {};
  const auto a = train_glove(text.words, pairs->as<const Cooccurrence>(), o, one, nothing);
  const auto b = train_glove(text.words, pairs->as<const Cooccurrence>(), o, three, nothing);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_TRUE(same(*a, *b));
  expect_topics(*a, "glove");
}

TEST(Vectors, PpmiAndLsaSeparateTopics) {
  const WordStream text = stream_of(two_topics(300));
  ThreadPool one(1), three(3);
  CooccurrenceOptions o;
  o.by_distance = false;
  const auto pairs = count_cooccurrences(text, o);
  const SparseMatrix pmi = positive_pmi(text.words.size(), pairs->as<const Cooccurrence>(), 1);
  const WordVectors a = svd_vectors(text.words, pmi, 2, 0.5, 1, one),
                    b = svd_vectors(text.words, pmi, 2, 0.5, 1, three);
  EXPECT_TRUE(same(a, b));
  expect_topics(a, "ppmi");
  expect_topics(svd_vectors(text.words, word_documents(text), 2, 0.5, 1, one), "lsa");
}

// Count vectors, and tf 0.0025 with idf ln 20, computed by hand.
TEST(Vectors, BagOfWordsAndTfIdfMatchHandComputedValues) {
  NumberedWords v;
  for (const char* w : {"a", "the", "cat", "sat", "on", "mat", "red", "dog", "lay", "rug"}) v.add(w);
  const std::vector<std::string_view> first = {"a", "the", "the", "cat", "sat", "on", "on", "mat", "red"},
                                      second = {"the", "cat", "sat", "mat", "dog", "lay", "rug"};
  EXPECT_EQ(bag_of_words(v, first), (std::vector<int64_t>{1, 2, 1, 1, 2, 1, 1, 0, 0, 0}));
  EXPECT_EQ(bag_of_words(v, second), (std::vector<int64_t>{0, 1, 1, 1, 0, 1, 0, 1, 1, 1}));
  EXPECT_NEAR(tf_idf(1, 400, 20, 1), 0.00749, 5e-6);
}

TEST(Vectors, SvdMatchesAKnownMatrix) {
  // [[3, 0], [4, 5]] has singular values sqrt(45) and sqrt(5).
  SparseMatrix m;
  m.columns = 2;
  m.column = {0}, m.value = {3};
  m.end_row();
  m.column.insert(m.column.end(), {0, 1}), m.value.insert(m.value.end(), {4, 5});
  m.end_row();
  ThreadPool pool(1);
  const Svd svd = truncated_svd(m, 2, 1, pool);
  EXPECT_NEAR(svd.values[0], std::sqrt(45.0), 1e-9);
  EXPECT_NEAR(svd.values[1], std::sqrt(5.0), 1e-9);
  EXPECT_NEAR(std::fabs(svd.u[0][0]), 1 / std::sqrt(10.0), 1e-9);
  EXPECT_NEAR(std::fabs(svd.u[0][1]), 3 / std::sqrt(10.0), 1e-9);
}

WordVectors small_vectors() {
  WordVectors v;
  for (const char* w : {"king", "queen", "man", "woman"}) v.words.add(w);
  v.width = 3, v.rows = RowMatrix(4, padded(3));
  const float values[4][3] = {{1, 1, 0}, {1, 0, 1.5f}, {0.1f, 1, 0}, {0.1f, 0, 1.25e-8f}};
  for (size_t i = 0; i < 4; ++i) std::copy_n(values[i], 3, v.rows.row(i));
  return v;
}

TEST(Vectors, FormatsReadBackTheSameBits) {
  const WordVectors v = small_vectors();
  for (const auto format :
       {VectorFormat::kText, VectorFormat::kBinary, VectorFormat::kGlove, VectorFormat::kFastText}) {
    std::string bytes;
    ASSERT_TRUE(write_vectors(v, format, [&](std::string_view text) -> Status {
                  return bytes += text, Done{};
                }).ok());
    const auto stream = ByteStream::from_memory(bytes, "v");
    const auto read = read_vectors(**stream);
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_TRUE(same(v, *read));
  }
}

std::string bytes_in(const WordVectors& v, VectorFormat format) {
  std::string out;
  EXPECT_TRUE(
      write_vectors(v, format, [&](std::string_view text) -> Status { return out += text, Done{}; }).ok());
  return out;
}

std::vector<float> vector_by_ngrams(const WordVectors& v, const std::string& word) {
  std::vector<uint32_t> rows;
  add_ngram_rows(word, v.words.size(), v.subwords->options, rows);
  std::vector<float> out(v.rows.stride(), 0.0f);
  add_mean(v.subwords->rows, rows, out.data());
  return out;
}

// tests/lexical/fasttext.bin: fasttext 0.9.2 cbow -dim 4 -bucket 40 -minn 2 -maxn 4 -epoch 3 -minCount 2 -ws
// 3 -neg 2 on 60 lines of ten words. The expected numbers come from `fasttext print-word-vectors`.
TEST(Vectors, ModelsOfFastTextAreReadAndWritten) {
  const auto bytes = read_file(MAKAR_SOURCE_DIR "/tests/lexical/fasttext.bin");
  ASSERT_TRUE(bytes.ok());
  const auto stream = ByteStream::from_memory(*bytes, "fasttext.bin");
  const auto v = read_vectors(**stream);
  ASSERT_TRUE(v.ok()) << v.error().text();
  EXPECT_EQ(v->words.size(), 11u);  // with </s>
  const auto near = [](const float* got, std::vector<float> expected) {
    for (size_t j = 0; j < 4; ++j) EXPECT_NEAR(got[j], expected[j], 1e-4f * std::fabs(expected[j])) << j;
  };
  near(v->rows.row(*v->words.find("cat")), {0.024598f, 0.023516f, -0.0038288f, 0.0076138f});
  near(v->rows.row(*v->words.find("größe")), {0.0074979f, 0.0020185f, 0.0095792f, 0.00034087f});
  near(vector_by_ngrams(*v, "unseen").data(), {-8.202e-05f, 0.00011632f, -7.5728e-05f, -1.9722e-05f});
  near(vector_by_ngrams(*v, "ü").data(), {-2.8905e-05f, 6.6592e-05f, -3.4038e-05f, -8.2934e-06f});
  EXPECT_TRUE(bytes_in(*v, VectorFormat::kFastText) == *bytes);
}

TEST(Vectors, UnknownWordsHaveVectorsOfTheirNgrams) {
  const WordStream text = stream_of(two_topics(200));
  Word2VecOptions o;
  o.width = 8, o.epochs = 40, o.max_ngram = 4, o.buckets = 5000, o.learning_rate = 0.1, o.subsample = 0;
  ThreadPool pool(1);
  const auto v = train_word2vec(text, o, pool, [](const VectorProgress&) {});
  ASSERT_TRUE(v.ok());
  const auto stream = ByteStream::from_memory(bytes_in(*v, VectorFormat::kFastText), "v.bin");
  const auto read = read_vectors(**stream);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_TRUE(same(*v, *read));
  EXPECT_EQ(vector_by_ngrams(*v, "sheepdog"), vector_by_ngrams(*read, "sheepdog"));
  const VectorIndex index(*read);
  const auto unit = index.unit_by_ngrams("sheepdog");
  ASSERT_TRUE(unit);
  const std::set<std::string> animals = {"cat", "dog", "horse", "cow", "sheep"};
  EXPECT_TRUE(animals.contains(read->words.word(index.nearest(*unit, 1, {})[0].word)));
  EXPECT_FALSE(VectorIndex(small_vectors()).unit_by_ngrams("sheepdog"));
  ScratchFolder folder;
  const auto score =
      score_similarity(index, folder.write("pairs.txt", "sheep sheepdog 9\nsheep redder 1\ncat dog 5\n"));
  ASSERT_TRUE(score.ok());
  EXPECT_EQ(score->pairs, 3u);
  EXPECT_EQ(score->by_ngrams, 2u);
  // Like known words, unknown ones are looked up in lower case.
  const auto upper =
      score_similarity(index, folder.write("upper.txt", "sheep Sheepdog 9\nSheep REDDER 1\ncat dog 5\n"));
  ASSERT_TRUE(upper.ok());
  EXPECT_EQ(upper->spearman, score->spearman);
  EXPECT_EQ(upper->by_ngrams, 2u);
}

// Every truncation fails, and so does every damaged field.
TEST(Vectors, BrokenModelsOfFastTextAreErrors) {
  const std::string good = *read_file(MAKAR_SOURCE_DIR "/tests/lexical/fasttext.bin");
  const auto fails = [](const std::string& bytes, const char* message) {
    const auto stream = ByteStream::from_memory(bytes, "v.bin");
    const auto read = read_vectors(**stream);
    ASSERT_FALSE(read.ok()) << message;
    EXPECT_NE(read.error().text().find(message), std::string::npos) << read.error().text();
  };
  for (size_t size = 8; size < good.size(); ++size) fails(good.substr(0, size), "v.bin: byte");
  const auto with_value = [&](size_t at, auto value) {
    std::string out = good;
    std::memcpy(out.data() + at, &value, sizeof(value));
    return out;
  };
  fails(with_value(4, int32_t{13}), "versions 11 and 12");
  fails(with_value(8, int32_t{2'000'000}), "dimensions");
  fails(with_value(40, int32_t{-1}), "buckets");
  fails(with_value(48, int32_t{1000}), "n-grams of 20");
  fails(with_value(64, int32_t{12}), "the vocabulary of 12 entries has 11 words");
  fails(with_value(84, int64_t{0}), "quantized");
  fails(with_value(good.size() - 4, std::nanf("")), "not finite");
  fails(good.substr(0, 92) + std::string(20'000, 'a'), "zero byte");
}

TEST(Vectors, BrokenFilesAreErrors) {
  const std::string binary = bytes_in(small_vectors(), VectorFormat::kBinary),
                    text = bytes_in(small_vectors(), VectorFormat::kText);
  const auto fails = [](const std::string& bytes, const char* message) {
    const auto stream = ByteStream::from_memory(bytes, "v.bin");
    const auto read = read_vectors(**stream);
    ASSERT_FALSE(read.ok()) << message;
    EXPECT_NE(read.error().text().find(message), std::string::npos) << read.error().text();
  };
  fails(binary.substr(0, binary.size() - 5), "truncated");
  fails(text.substr(0, text.find("woman")), "truncated");
  fails("", "empty");
  fails("hello\n", "expected word vectors");
  fails("4 200000\n", "the limits are");
  fails("99999999999 3\nking 1 1 1\n", "the limits are");
  fails("2 3\na 1 2 3\nb 1 2\n", "3 numbers");
  fails("a 1 2 3\nb 1 nan 3\n", "3 numbers");
  fails("1 3\na nan nan nan\n", "3 numbers");
}

TEST(Vectors, AnalogiesAndSimilaritiesAreScored) {
  WordVectors v;
  for (const char* w : {"man", "king", "woman", "queen", "apple"}) v.words.add(w);
  v.width = 3, v.rows = RowMatrix(5, padded(3));
  const float values[5][3] = {{1, 0, 0}, {1, 1, 0}, {-1, 0, 0.2f}, {-1, 1, 0.2f}, {0, -1, 3}};
  for (size_t i = 0; i < 5; ++i) std::copy_n(values[i], 3, v.rows.row(i));
  const VectorIndex index(v);
  EXPECT_EQ(v.words.word(index.analogy(0, 1, 2, 1)[0].word), "queen");
  ScratchFolder folder;
  const auto a = score_analogies(
      index, folder.write("q.txt", ": royal\nman king woman queen\nman king woman apple\nx y z w\n"), 0);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->back().questions, 2u);
  EXPECT_EQ(a->back().correct, 1u);
  EXPECT_EQ(a->back().unknown, 1u);
  const auto s = score_similarity(
      index, folder.write("s.csv", "w1,w2,score\nman,king,9\nman,woman,1\nman,apple,5\nman,none,3\n"));
  ASSERT_TRUE(s.ok()) << s.error().text();
  EXPECT_EQ(s->pairs, 3u);
  EXPECT_NEAR(s->spearman, 1, 1e-12);
  EXPECT_FALSE(score_similarity(index, folder.write("t.txt", "man king 9\nman woman\n")).ok());
}

TEST(Vectors, TsneSeparatesClusters) {
  Vectors points;
  const Rng rng(3, Purpose::kSynthetic);
  for (uint64_t i = 0; i < 60; ++i) {
    std::vector<double> p(5);
    for (uint64_t j = 0; j < 5; ++j) p[j] = 0.1 * rng.normal(i * 5 + j) + (j == i % 3 ? 3 : 0);
    points.push_back(p);
  }
  TsneOptions o;
  o.perplexity = 10, o.iterations = 300;
  ThreadPool one(1), two(2);
  const auto a = tsne(points, o, one), b = tsne(points, o, two);
  EXPECT_EQ(a, b);
  const auto distance = [&](size_t i, size_t j) { return std::hypot(a[i][0] - a[j][0], a[i][1] - a[j][1]); };
  for (size_t i = 0; i < 60; ++i) {
    size_t nearest = i == 0 ? 1 : 0;
    for (size_t j = 0; j < 60; ++j)
      if (j != i && distance(i, j) < distance(i, nearest)) nearest = j;
    EXPECT_EQ(nearest % 3, i % 3);
  }
  const std::string svg = map_svg("a < b", {{0, 0}, {1, 1}}, {"x & y", "z"});
  EXPECT_NE(svg.find("x &amp; y"), std::string::npos);
}

TEST(Vectors, PrincipalComponentsFindTheLongAxis) {
  const auto p = principal_components({{0, 0, 1}, {2, 0.1, 1}, {4, -0.1, 1}, {6, 0, 1}});
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(p[i][0], 2.0 * static_cast<double>(i) - 3, 0.01);
}

}  // namespace
