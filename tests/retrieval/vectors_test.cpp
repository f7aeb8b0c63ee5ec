// Vectors, the HNSW graph and dense collections.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/rng.h"
#include "retrieval/check_index.h"
#include "retrieval/hnsw.h"
#include "retrieval/indexer.h"
#include "retrieval/searcher.h"
#include "scratch_folder.h"

namespace makar {
namespace {

std::vector<float> vector_of(uint64_t index, int64_t width, uint64_t seed = 3) {
  std::vector<float> out;
  const Rng rng(seed, Purpose::kSynthetic);
  for (int64_t i = 0; i < width; ++i)
    out.push_back(rng.normal(index * static_cast<uint64_t>(width) + static_cast<uint64_t>(i)));
  return out;
}

TEST(Vectors, ProductsAndCodesAreClose) {
  for (const int64_t width : {1, 15, 16, 17, 100, 384}) {
    const auto a = vector_of(1, width), b = vector_of(2, width);
    double dot = 0, distance = 0;
    for (size_t i = 0; i < a.size(); ++i)
      dot += double{a[i]} * b[i], distance += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    EXPECT_NEAR(dot_product(a.data(), b.data(), width), dot, 1e-4);
    EXPECT_NEAR(squared_distance(a.data(), b.data(), width), distance, 1e-3);
    const auto exact = decode_vector(encode_vector(a, VectorType::kF32), VectorType::kF32, "");
    EXPECT_EQ(*exact, a);
    const auto quantized = decode_vector(encode_vector(a, VectorType::kInt8), VectorType::kInt8, "");
    float largest = 0;
    for (const float x : a) largest = std::max(largest, std::fabs(x));
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR((*quantized)[i], a[i], largest / 254 * 1.0001f);
  }
  EXPECT_FALSE(decode_vector("abc", VectorType::kF32, "").ok());
  EXPECT_FALSE(decode_vector(std::string("\x00\x00\xC0\x7F", 4), VectorType::kF32, "").ok());  // not a number
}

TEST(Vectors, SeveralRowsHaveTheBitsOfOne) {
  for (const int64_t width : {1, 16, 23, 128})
    for (const VectorType type : {VectorType::kF32, VectorType::kInt8})
      for (const Similarity similarity : {Similarity::kDot, Similarity::kL2}) {
        VectorRows rows(width, type, similarity);
        std::vector<uint32_t> order;
        for (uint32_t i = 0; i < 21; ++i)
          rows.set(i, vector_of(i, width).data()), order.push_back(i * 8 % 21);
        const auto query = rows.query(vector_of(100, width));
        std::vector<float> out;
        for (size_t count = 0; count <= order.size(); ++count) {
          rows.distances(query, {order.data(), count}, out);
          ASSERT_EQ(out.size(), count);
          for (size_t i = 0; i < count; ++i) EXPECT_EQ(out[i], rows.distance(query, order[i]));
        }
      }
}

double recall(const Hnsw& graph, int64_t width, size_t queries, size_t ef,
              const std::function<bool(int64_t)>& allowed = {}) {
  double found = 0, expected = 0;
  for (size_t q = 0; q < queries; ++q) {
    const auto query = vector_of(1000000 + q, width);
    std::set<int64_t> exact;
    for (const auto& n : graph.scan(query, 10, allowed)) exact.insert(n.label);
    for (const auto& n : graph.search(query, 10, ef, allowed)) found += exact.count(n.label) ? 1 : 0;
    expected += static_cast<double>(exact.size());
  }
  return found / expected;
}

TEST(Hnsw, RecallIsHighWithDeletionsAndFilters) {
  for (const VectorType type : {VectorType::kF32, VectorType::kInt8})
    for (const Similarity similarity : {Similarity::kCosine, Similarity::kL2}) {
      constexpr int64_t kWidth = 24;
      Hnsw graph(kWidth, type, similarity);
      const auto add = [&](int64_t label) {
        auto v = vector_of(static_cast<uint64_t>(label), kWidth);
        if (similarity == Similarity::kCosine) normalize_vector(v);
        graph.add(label, v.data());
      };
      for (int64_t i = 0; i < 2000; ++i) add(i);
      EXPECT_GE(recall(graph, kWidth, 50, 200), 0.99);
      std::vector<int64_t> removed_labels;
      for (int64_t i = 0; i < 2000; i += 5) removed_labels.push_back(i);  // a fifth
      graph.remove(removed_labels);
      EXPECT_EQ(graph.size(), 1600u);
      EXPECT_GE(recall(graph, kWidth, 50, 200), 0.99);
      for (const auto& n : graph.search(vector_of(5, kWidth), 100, 200)) EXPECT_NE(n.label % 5, 0);
      for (int64_t i = 2000; i < 2200; ++i) add(i);  // into freed nodes
      EXPECT_GE(recall(graph, kWidth, 50, 200), 0.99);
      const auto odd = [](int64_t label) { return label % 2 == 1; };
      EXPECT_GE(recall(graph, kWidth, 50, 200, odd), 0.98);
      for (const auto& n : graph.search(vector_of(7, kWidth), 10, 100, odd)) EXPECT_EQ(n.label % 2, 1);
    }
}

TEST(Hnsw, WorksAfterRemovingAlmostAll) {
  Hnsw graph(8, VectorType::kF32, Similarity::kL2);
  for (int64_t i = 0; i < 500; ++i) graph.add(i, vector_of(static_cast<uint64_t>(i), 8).data());
  std::vector<int64_t> removed_labels;
  for (int64_t i = 0; i < 500; ++i)
    if (i != 123 && i != 321) removed_labels.push_back(i);
  graph.remove(removed_labels);
  EXPECT_EQ(graph.search(vector_of(9, 8), 10, 50).size(), 2u);
  graph.remove(std::vector<int64_t>{123, 321});
  EXPECT_TRUE(graph.search(vector_of(9, 8), 10, 50).empty());
  graph.add(7, vector_of(7, 8).data());
  EXPECT_EQ(graph.search(vector_of(9, 8), 10, 50).size(), 1u);
}

TEST(Hnsw, SameChangesGiveTheSameGraph) {
  std::vector<std::string> bytes[2];
  for (auto& out : bytes) {
    Hnsw graph(8, VectorType::kF32, Similarity::kL2);
    for (int64_t i = 0; i < 300; ++i)
      graph.add(i, vector_of(static_cast<uint64_t>(i % 250), 8).data());  // some equal
    graph.remove(std::vector<int64_t>{1, 5, 299});
    for (const int64_t label : graph.take_changed()) out.push_back(write_links(graph.links(label)));
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

// A vector from the bytes of a text, instead of a model.
Result<std::vector<std::vector<float>>> toy_embed(const std::vector<std::string>& texts) {
  std::vector<std::vector<float>> out;
  for (const std::string& text : texts) {
    std::vector<float> v(16, 0.01f);
    for (const char c : text) v[static_cast<unsigned char>(c) % 16] += 1;
    out.push_back(v);
  }
  return out;
}

TEST(Dense, TheGraphFindsWhatAFullScanFinds) {
  const ScratchFolder folder;
  const std::string path = folder / "i.db";
  auto store = IndexStore::open(path, true);
  for (const bool hnsw : {false, true}) {
    CollectionSettings settings;
    settings.chunk.kind = ChunkKind::kWhole;
    settings.model = "toy", settings.hnsw = hnsw;
    const auto collection = store->create_collection(hnsw ? "graph" : "flat", settings);
    IndexerOptions options;
    options.embed = toy_embed;
    options.commit_documents = 100;
    for (int round = 0; round < 2; ++round) {  // the second continues the stored graph
      auto indexer = Indexer::open(*store, *store->collection(collection->name), options);
      for (int i = round * 600; i < (round + 1) * 600; ++i) {
        SourceDocument d;
        d.name = "d" + std::to_string(i),
        d.text = "text " + std::to_string(i * 7919) + std::string(static_cast<size_t>(i % 9), 'a' + i % 26);
        d.metadata = {{"even", i % 2 == 0 ? "yes" : "no"}};
        ASSERT_TRUE(indexer->add(d).ok());
      }
      ASSERT_TRUE(indexer->commit().ok());
      std::vector<std::string> removed_names;
      for (int i = round * 600; i < (round + 1) * 600; i += 10)
        removed_names.push_back("d" + std::to_string(i));
      const Status removed = indexer->remove(removed_names);
      ASSERT_TRUE(removed.ok()) << removed.error().text();
    }
  }
  EXPECT_TRUE(check_index(*store).ok());
  for (const bool filtered : {false, true}) {
    SearchOptions options;
    options.mode = SearchMode::kDense;
    options.ef = 300;
    if (filtered) options.filter = {{"even", "yes"}};
    auto flat = Searcher::open(path, "flat", options, toy_embed),
         graph = Searcher::open(path, "graph", options, toy_embed);
    ASSERT_TRUE(flat.ok() && graph.ok()) << (graph.ok() ? "" : graph.error().text());
    int same = 0;
    for (int q = 0; q < 20; ++q) {
      const std::string query = "text " + std::to_string(q * 7919 * 31);
      const auto a = (*flat)->search(query), b = (*graph)->search(query);
      ASSERT_TRUE(a.ok() && b.ok());
      ASSERT_EQ(a->size(), b->size());
      for (size_t i = 0; i < a->size(); ++i) same += (*a)[i].score == (*b)[i].score;
      if (filtered)
        for (const SearchHit& hit : *b) EXPECT_EQ(hit.chunk.metadata["even"], "yes");
    }
    EXPECT_GE(same, 198);
  }
}

}  // namespace
}  // namespace makar
