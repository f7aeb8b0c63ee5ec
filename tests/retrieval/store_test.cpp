// The index file and sparse search, compared with formulas over plain counts.
#include <gtest/gtest.h>

#include <cmath>

#include "database/sqlite.h"
#include "retrieval/check_index.h"
#include "retrieval/indexer.h"
#include "retrieval/rerank.h"
#include "retrieval/searcher.h"
#include "scratch_folder.h"

namespace makar {
namespace {

SourceDocument document(const std::string& name, const std::string& text,
                        const Json& metadata = Json::object()) {
  SourceDocument out;
  out.name = name, out.text = text, out.metadata = metadata;
  return out;
}

CollectionSettings plain_settings() {
  CollectionSettings out;
  out.analyzer.language = "none";
  out.chunk.kind = ChunkKind::kWhole;
  return out;
}

// Short texts over a small vocabulary.
std::vector<std::string> random_texts(size_t count) {
  std::vector<std::string> out;
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t j = 0; j < 3 + i % 17; ++j) {
      state = state * 1664525 + 1013904223;
      const uint32_t r = state >> 16 & 1023;
      text += "w" + std::to_string(r * r / 16384) + " ";  // small numbers are frequent
    }
    out.push_back(text);
  }
  return out;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find(' ', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// BM25 by its definition, over all texts.
double bm25(const std::map<std::string, std::string>& all, const std::string& name,
            const std::vector<std::string>& query, bool robertson, double k1, double b) {
  double total = 0, score = 0;
  for (const auto& [n, text] : all) total += static_cast<double>(words(text).size());
  const double n = static_cast<double>(all.size()), mean = total / n;
  for (const std::string& term : query) {
    double df = 0;
    for (const auto& [m, text] : all) {
      const auto w = words(text);
      df += std::find(w.begin(), w.end(), term) != w.end();
    }
    const auto w = words(all.at(name));
    const double tf = static_cast<double>(std::count(w.begin(), w.end(), term));
    const double idf =
        robertson ? std::log((n - df + 0.5) / (df + 0.5)) : std::log(1 + (n - df + 0.5) / (df + 0.5));
    score += idf * tf / (tf + k1 * (1 - b + b * static_cast<double>(w.size()) / mean));
  }
  return score;
}

void expect_formulas(const std::string& path, const std::map<std::string, std::string>& all) {
  const std::vector<std::string> query = {"w0", "w3", "w17", "w40", "w3"};
  for (const bool robertson : {false, true}) {
    SearchOptions options;
    options.k = all.size();
    options.sparse = {robertson ? SparseForm::kBm25Robertson : SparseForm::kBm25, 1.5, 0.6};
    auto searcher = Searcher::open(path, "c", options);
    ASSERT_TRUE(searcher.ok()) << searcher.error().text();
    const auto hits = (*searcher)->search("w0 w3 w17 w40 w3");
    ASSERT_TRUE(hits.ok());
    size_t matching = 0;
    for (const auto& [name, text] : all) {
      const auto w = words(text);
      matching += std::any_of(w.begin(), w.end(), [&](const std::string& x) {
        return std::find(query.begin(), query.end(), x) != query.end();
      });
    }
    EXPECT_EQ(hits->size(), matching);
    for (size_t i = 0; i < hits->size(); ++i) {
      const SearchHit& hit = (*hits)[i];
      EXPECT_NEAR(hit.score, bm25(all, hit.chunk.name, query, robertson, 1.5, 0.6), 1e-9) << hit.chunk.name;
      if (i > 0) EXPECT_GE((*hits)[i - 1].score, hit.score);
    }
  }
}

TEST(Store, Bm25EqualsTheFormulasThroughChanges) {
  const ScratchFolder folder;
  const std::string path = folder / "i.db";
  std::map<std::string, std::string> all;
  auto store = IndexStore::open(path, true);
  ASSERT_TRUE(store.ok()) << store.error().text();
  const auto collection = store->create_collection("c", plain_settings());
  ASSERT_TRUE(collection.ok());
  IndexerOptions options;
  options.commit_documents = 37;  // several transactions, so that posting lists span several rows
  auto indexer = Indexer::open(*store, *collection, options);
  ASSERT_TRUE(indexer.ok());
  const auto generated = random_texts(900);
  for (size_t i = 0; i < generated.size(); ++i) {
    all["d" + std::to_string(i)] = generated[i];
    ASSERT_TRUE(indexer->add(document("d" + std::to_string(i), generated[i])).ok());
  }
  ASSERT_TRUE(indexer->commit().ok());
  expect_formulas(path, all);
  // Updates and removals keep the statistics exact.
  std::vector<std::string> removed;
  for (size_t i = 0; i < generated.size(); i += 7)
    removed.push_back("d" + std::to_string(i)), all.erase(removed.back());
  ASSERT_TRUE(indexer->remove(removed).ok());
  for (size_t i = 1; i < generated.size(); i += 50) {
    const std::string name = "d" + std::to_string(i);
    if (!all.contains(name)) continue;
    all[name] = "w3 w3 w900 ";
    ASSERT_TRUE(indexer->add(document(name, all[name])).ok());
  }
  ASSERT_TRUE(indexer->commit().ok());
  expect_formulas(path, all);
  const auto checked = check_index(*store);
  ASSERT_TRUE(checked.ok()) << checked.error().text();
  EXPECT_EQ(checked->documents, static_cast<int64_t>(all.size()));
  EXPECT_FALSE(indexer->remove({"d1", "nobody"}).ok());
  EXPECT_TRUE(store->document(*collection, "d1")->has_value());
}

TEST(Store, UnchangedDocumentsAreSkippedAndKeepTheirIds) {
  const ScratchFolder folder;
  std::vector<std::string> keys[2];
  for (int round = 0; round < 2; ++round) {
    auto store = IndexStore::open(folder / ("i" + std::to_string(round)), true);
    const auto collection = store->create_collection("c", {});
    auto indexer = Indexer::open(*store, *collection, {});
    if (round == 1) ASSERT_TRUE(indexer->add(document("first", "Other text.")).ok());
    ASSERT_TRUE(indexer->add(document("a", "One sentence. Two sentences.", {{"year", 2001}})).ok());
    ASSERT_TRUE(indexer->add(document("a", "One sentence. Two sentences.", {{"year", 2001}})).ok());
    ASSERT_TRUE(indexer->commit().ok());
    EXPECT_EQ(indexer->counts().unchanged, 1);
    const auto rows = store->database().rows(
        "SELECT key FROM chunks WHERE document = (SELECT id FROM documents WHERE name = 'a')");
    for (const SqlRow& row : *rows) keys[round].push_back(sql_text(row[0]));
  }
  EXPECT_EQ(keys[0].size(), 1u);
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_EQ(keys[0][0].size(), 16u);
}

TEST(Store, FiltersApplyAndOffsetsFitTheText) {
  const ScratchFolder folder;
  const std::string path = folder / "i.db";
  auto store = IndexStore::open(path, true);
  CollectionSettings settings;
  settings.chunk.size = 20;
  const auto collection = store->create_collection("default", settings);
  auto indexer = Indexer::open(*store, *collection, {});
  const std::string text = "Élan vital. The cat sat here. A dog ran.";
  ASSERT_TRUE(indexer->add(document("a", text, {{"lang", "en"}, {"year", 1999}})).ok());
  ASSERT_TRUE(indexer->add(document("b", "A cat again.", {{"lang", "de"}})).ok());
  ASSERT_TRUE(indexer->commit().ok());
  SearchOptions options;
  options.filter = {{"lang", "en"}, {"year", "1999"}};
  auto searcher = Searcher::open(path, "default", options);
  ASSERT_TRUE(searcher.ok());
  const auto hits = (*searcher)->search("cats");
  ASSERT_EQ(hits->size(), 1u);
  const StoredChunk& chunk = (*hits)[0].chunk;
  EXPECT_EQ(chunk.name, "a");
  EXPECT_EQ(text.substr(static_cast<size_t>(chunk.begin), static_cast<size_t>(chunk.end - chunk.begin)),
            chunk.text);
  EXPECT_NE(chunk.text.find("cat sat"), std::string::npos);
  EXPECT_FALSE(Searcher::open(path, "defualt", options).ok());
  options.filter = {{"lang", "' OR 1=1 --"}};
  EXPECT_TRUE((*(*Searcher::open(path, "default", options))->search("cat")).empty());
}

TEST(Store, HostileFilesAreErrors) {
  const ScratchFolder folder;
  EXPECT_FALSE(IndexStore::open(folder / "none.db", false).ok());
  EXPECT_FALSE(IndexStore::open(folder.write("text.db", std::string(5000, 'x')), false).ok());
  auto other = Database::open(folder / "other.db");
  ASSERT_TRUE(other->run("CREATE TABLE t (x)").ok());
  const auto opened = IndexStore::open(folder / "other.db", true);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("another program"), std::string::npos);
  // A damaged posting list is an error, not a crash.
  auto store = IndexStore::open(folder / "i.db", true);
  const auto collection = store->create_collection("c", plain_settings());
  auto indexer = Indexer::open(*store, *collection, {});
  ASSERT_TRUE(indexer->add(document("a", "x y z")).ok());
  ASSERT_TRUE(indexer->commit().ok());
  ASSERT_TRUE(store->database().run("UPDATE postings SET data = x'00ffffffffff' WHERE term = 'y'").ok());
  auto searcher = Searcher::open(folder / "i.db", "c", {});
  EXPECT_TRUE((*searcher)->search("x").ok());
  EXPECT_FALSE((*searcher)->search("y").ok());
  EXPECT_FALSE(check_index(*store).ok());
}

TEST(Sparse, WeightsFollowTheirFormulas) {
  // tf 0.0025 and idf ln 20 give 0.00749.
  EXPECT_NEAR(sparse_weight({SparseForm::kTfIdf}, 20, 400, 1, 1, 400), 0.00749, 5e-6);
  EXPECT_NEAR(sparse_weight({SparseForm::kTfIdf}, 100, 7, 5, 2, 800), 0.0025 * std::log(20), 1e-15);
  EXPECT_EQ(sparse_weight({SparseForm::kCount}, 20, 400, 1, 3, 400), 3);
}

TEST(Search, RerankingReordersTheFirst) {
  const auto hits = [] {
    std::vector<SearchHit> out(4);
    for (size_t i = 0; i < out.size(); ++i)
      out[i].score = 10 - 2 * static_cast<double>(i), out[i].chunk.key = "abcd"[i];
    return out;
  };
  const auto order = [](const std::vector<SearchHit>& list) {
    std::string out;
    for (const SearchHit& hit : list) out += hit.chunk.key;
    return out;
  };
  auto all = hits();
  reorder_hits(all, {-3, -1, -2, -1}, 1);
  EXPECT_EQ(order(all), "bdca");  // equal scores keep their order
  EXPECT_EQ(all[0].score, -1);
  auto first = hits();
  reorder_hits(first, {-3, -1}, 1);
  EXPECT_EQ(order(first), "bacd");
  for (size_t i = 1; i < first.size(); ++i) EXPECT_LT(first[i].score, first[i - 1].score);
  // Scaled: the search gives 1, 0.5, 0 and the reranker 0, 1, 0.5.
  auto mixed = hits();
  reorder_hits(mixed, {-3, -1, -2}, 0.25);
  EXPECT_EQ(order(mixed), "abcd");
  EXPECT_NEAR(mixed[0].score, 0.75, 1e-12);
  EXPECT_NEAR(mixed[1].score, 0.625, 1e-12);
  auto none = hits();
  reorder_hits(none, {}, 1);
  EXPECT_EQ(order(none), "abcd");
}

TEST(Search, FusionFollowsItsFormulas) {
  const std::vector<RankedChunk> a = {{5, 9}, {2, 5}, {7, 1}}, b = {{2, 0.9}, {8, 0.1}};
  const auto ranks = fuse_ranks(a, b, 60);
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[0].slot, 2u);
  EXPECT_DOUBLE_EQ(ranks[0].score, 1 / 62.0 + 1 / 61.0);
  EXPECT_DOUBLE_EQ(ranks[1].score, 1 / 61.0);
  const auto scores = fuse_scores(a, b, 0.25);
  EXPECT_EQ(scores[0].slot, 5u);
  EXPECT_DOUBLE_EQ(scores[0].score, 0.75);
  EXPECT_DOUBLE_EQ(scores[1].score, 0.75 * 0.5 + 0.25);
}

}  // namespace
}  // namespace makar
