// Hashes, permutations, mixtures and token shards: known values, round trips, located errors.
#include "data/token_store.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "base/sha256.h"
#include "data/idx.h"
#include "data/mixture.h"
#include "data/permutation.h"
#include "data/prepare.h"
#include "data/train_tokenizer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

TEST(Sha256, MatchesKnownSums) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Sha256 pieces;
  for (int i = 0; i < 1000; ++i) {
    pieces.add(std::string(1000, 'a'));
    pieces.add(std::span<const std::byte>());  // an empty span with a null address
  }
  EXPECT_EQ(pieces.hex(), sha256_of(std::string(1000000, 'a')));
}

TEST(Permutation, HasEveryIndexOnceAndAnotherOrderPerEpoch) {
  for (const uint64_t n : {1u, 2u, 3u, 17u, 64u, 1000u}) {
    std::set<uint64_t> seen;
    std::vector<uint64_t> first, second;
    for (uint64_t i = 0; i < n; ++i)
      first.push_back(Permutation(n, 7, 0)(i)), second.push_back(Permutation(n, 7, 1)(i));
    seen.insert(first.begin(), first.end());
    EXPECT_EQ(seen.size(), n);
    EXPECT_LT(*seen.rbegin(), n);
    if (n > 16) EXPECT_NE(first, second);
  }
  // No index is favoured: the mean displacement of a random permutation is n / 3.
  double displacement = 0;
  const Permutation p(10000, 3, 0);
  for (uint64_t i = 0; i < 10000; ++i)
    displacement += std::abs(static_cast<double>(p(i)) - static_cast<double>(i));
  EXPECT_NEAR(displacement / 10000, 3333, 200);
}

TEST(Mixture, SharesAndRanksAreExact) {
  const Mixture m({3, 1}, 5);
  uint64_t counts[2] = {0, 0};
  std::set<uint64_t> ranks[2];
  for (uint64_t i = 0; i < 4096; ++i) {
    const auto d = m(i);
    ++counts[d.source];
    ranks[d.source].insert(d.rank);
  }
  EXPECT_EQ(counts[0], 3072u);
  for (int s = 0; s < 2; ++s) {  // every rank once, without a gap
    EXPECT_EQ(ranks[s].size(), counts[s]);
    EXPECT_EQ(*ranks[s].rbegin(), counts[s] - 1);
  }
  EXPECT_EQ(Mixture({1}, 0)(12345).rank, 12345u);
}

TEST(TokenStore, WritesAndReadsDocuments) {
  ScratchFolder f;
  for (const bool ids_32bit : {false, true}) {
    TokenWriter w(f.path(), "train", ids_32bit, true);
    const std::vector<uint32_t> a = {1, 2, 3}, b = {ids_32bit ? 70000u : 7u, 5};
    const std::vector<uint8_t> ma = {0, 1, 1}, mb = {1, 0};
    ASSERT_TRUE(w.add(a, true, ma).ok());
    ASSERT_TRUE(w.add(b, true, mb).ok());
    const auto shards = w.finish();
    ASSERT_TRUE(shards.ok());
    const Json manifest = {{"format", "makar-tokens-1"},
                           {"bits", ids_32bit ? 32 : 16},
                           {"vocab_size", 100000},
                           {"splits",
                            {{"train", {{"shards", *shards}, {"end", 4}}},
                             {"validation", {{"range_of", "train"}, {"begin", 4}}}}}};
    f.write("manifest.json", manifest.dump());
    const auto store = TokenStore::open(f.path(), "train");
    ASSERT_TRUE(store.ok()) << store.error().text();
    EXPECT_EQ(store->tokens(), 4);
    EXPECT_EQ(store->documents(), 2);
    EXPECT_EQ(store->read({0, 4}), (std::vector<int64_t>{1, 2, 3, ids_32bit ? 70000 : 7}));
    EXPECT_EQ(store->mask({0, 4}), (std::vector<uint8_t>{0, 1, 1, 1}));
    const auto parts = store->document_ranges(1, 4);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].end, 3);
    const auto validation_store = TokenStore::open(f.path(), "validation");
    ASSERT_TRUE(validation_store.ok());
    EXPECT_EQ(validation_store->read({0, 1}), (std::vector<int64_t>{5}));
  }
  f.write("train-00000.tokens", "cut");
  const auto broken = TokenStore::open(f.path(), "train");
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().text().find("prepare the data again"), std::string::npos) << broken.error().text();
}

TEST(Prepare, TokenizesCharactersAndSplitsOffTheEndForValidation) {
  ScratchFolder f;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "to be or not\n";
  const std::string file = f.write("a.txt", text);
  ThreadPool pool(2);
  const auto json = train_tokenizer_on({file}, {"char", 1000, {}, f / "scratch"}, pool);
  ASSERT_TRUE(json.ok()) << json.error().text();
  const auto tokenizer = Tokenizer::from_json(*json, "test");
  ASSERT_TRUE(tokenizer.ok());
  PrepareOptions o;
  o.paths = {file}, o.folder = f / "tokens", o.validation = 0.1, o.validation_at_end = true;
  const auto prepared = prepare_tokens(*tokenizer, pool, o);
  ASSERT_TRUE(prepared.ok()) << prepared.error().text();
  EXPECT_EQ(prepared->tokens, 1170u);
  EXPECT_EQ(prepared->validation_tokens, 130u);
  const auto store = TokenStore::open(f / "tokens", "train");
  ASSERT_TRUE(store.ok());
  const auto ids = store->read({0, 26});
  EXPECT_EQ(tokenizer->decode(std::vector<uint32_t>(ids.begin(), ids.end())), text.substr(0, 26));
  EXPECT_FALSE(train_tokenizer_on({file}, {"chra", 10, {}, f / "scratch"}, pool).ok());
}

TEST(Prepare, ValidationByHashKeepsDocumentsWhole) {
  ScratchFolder f;
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += "{\"text\": \"document number " + std::to_string(i) + "\"}\n{\"x\": 1}\n";
  const std::string file = f.write("a.jsonl", lines);
  ThreadPool pool(1);
  const auto json = train_tokenizer_on({file}, {"bpe", 300, {"<|endoftext|>"}, f / "scratch"}, pool);
  const auto tokenizer = Tokenizer::from_json(*json, "test");
  PrepareOptions o;
  o.paths = {file}, o.folder = f / "tokens", o.validation = 0.2;
  o.end_of_document = *tokenizer->id("<|endoftext|>");
  const auto prepared = prepare_tokens(*tokenizer, pool, o);
  ASSERT_TRUE(prepared.ok()) << prepared.error().text();
  EXPECT_EQ(prepared->documents + prepared->validation_documents, 200u);
  EXPECT_GT(prepared->validation_documents, 20u);
  EXPECT_LT(prepared->validation_documents, 60u);
  EXPECT_EQ(prepared->bad.count, 200u);
  const auto store = TokenStore::open(f / "tokens", "train");
  const auto first_document = store->read(store->document(0));
  EXPECT_EQ(first_document.back(), o.end_of_document);
}

TEST(Idx, ReadsValidFilesAndRejectsBrokenOnes) {
  const auto parse = [](const std::string& bytes) {
    auto stream = ByteStream::from_memory(bytes, "x");
    return read_idx(**stream);
  };
  const std::string head("\0\0\x08\x01\0\0\0\x03", 8);
  ASSERT_TRUE(parse(head + "abc").ok());
  EXPECT_FALSE(parse(head + "ab").ok());
  EXPECT_FALSE(parse(head + "abcd").ok());
  EXPECT_FALSE(parse(std::string("\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", 12)).ok());
  EXPECT_FALSE(parse("plain").ok());
}

}  // namespace
}  // namespace makar
