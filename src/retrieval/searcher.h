// Searches a collection: sparse, dense or both, with filters.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "retrieval/dense.h"
#include "retrieval/indexer.h"
#include "retrieval/sparse.h"

namespace makar {

enum class SearchMode { kSparse, kDense, kHybrid };
Result<SearchMode> parse_search_mode(const std::string& name, const std::string& place);
enum class Fusion { kReciprocalRank, kWeighted };
Result<Fusion> parse_fusion(const std::string& name, const std::string& place);

struct SearchOptions {
  SearchMode mode = SearchMode::kSparse;
  size_t k = 10;
  size_t candidates = 100;  // of each ranking that is fused
  SparseOptions sparse;
  Fusion fusion = Fusion::kReciprocalRank;
  double rrf_k = 60;    // 1 / (rrf_k + rank), rank from 1
  double weight = 0.5;  // of the dense score in a weighted fusion
  int64_t ef = 128;     // candidates of a search in the graph
  bool exact = false;   // compare with all vectors even if there is a graph
  MetadataFilter filter;
};

// Fuse two rankings, sorted best first. By rank: the sum of 1 / (rrf_k + rank).
std::vector<RankedChunk> fuse_ranks(const std::vector<RankedChunk>& a, const std::vector<RankedChunk>& b,
                                    double rrf_k);
// By score: each ranking's scores are scaled to 0..1 (lowest..highest); then (1 - weight) a + weight b, where
// a chunk that is missing from a ranking has 0 in it.
std::vector<RankedChunk> fuse_scores(const std::vector<RankedChunk>& a, const std::vector<RankedChunk>& b,
                                     double weight);

struct SearchHit {
  double score = 0;
  // Relevance of the chunk to the query, about 0 to 1: the share of the query's terms that it has,
  // each weighted by its rarity; with cosine vectors, the cosine if that is larger.
  double relevance = 0;
  StoredChunk chunk;
};

// Not thread-safe.
class Searcher {
 public:
  // `embed` embeds queries; required for dense and hybrid search.
  static Result<std::unique_ptr<Searcher>> open(const std::string& path, const std::string& collection,
                                                const SearchOptions& options, EmbedTexts embed = {});
  // The best chunks.
  Result<std::vector<RankedChunk>> rank(const std::string& query, size_t k);
  Result<std::vector<SearchHit>> search(const std::string& query);
  Result<std::vector<SearchHit>> search(const std::string& query, size_t k);
  // The best documents by name, each with the score of its best chunk.
  Result<std::vector<std::pair<std::string, double>>> search_documents(const std::string& query, size_t k);

  const Analyzer& analyzer() const { return analyzer_; }
  const CollectionInfo& collection() const { return collection_; }
  const IndexStore& store() const { return store_; }
  Result<StoredChunk> chunk(uint32_t slot) const { return store_.chunk(table_.ids[slot]); }

 private:
  Searcher(IndexStore store, CollectionInfo collection, SearchOptions options, Analyzer analyzer)
      : store_(std::move(store)),
        collection_(std::move(collection)),
        options_(std::move(options)),
        analyzer_(std::move(analyzer)) {}
  Result<std::vector<RankedChunk>> dense_rank(const std::string& query, size_t k);
  // Raises the relevance of each hit to the share of the query's terms that it has, weighted by rarity.
  Status add_coverage(const std::string& query, std::vector<SearchHit>& hits) const;

  IndexStore store_;
  CollectionInfo collection_;
  SearchOptions options_;
  Analyzer analyzer_;
  EmbedTexts embed_;
  ChunkTable table_;
  std::unique_ptr<SparseIndex> sparse_;
  std::unique_ptr<DenseIndex> dense_;
  std::optional<std::vector<uint8_t>> allowed_;
  std::unordered_map<int64_t, std::string> names_;  // of documents
  std::unordered_map<uint32_t, double> cosines_;    // of the last dense ranking
};

}  // namespace makar
