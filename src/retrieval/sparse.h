// Ranking by shared terms: BM25, TF-IDF, counts.
//
// With N chunks, df of them having the term, tf its count in the chunk, L the chunk's length in terms and A
// the mean length:
//   bm25            ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 (1 - b + b L / A))     (Lucene)
//   bm25-robertson  ln((N - df + 0.5) / (df + 0.5))     * tf / (tf + k1 (1 - b + b L / A))
//   tfidf           tf / L * ln(N / df)
//   count           tf
// summed over the terms of the query; a term that occurs twice in the query counts twice.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "retrieval/store.h"

namespace makar {

enum class SparseForm { kBm25, kBm25Robertson, kTfIdf, kCount };
const char* name(SparseForm form);
Result<SparseForm> parse_sparse_form(const std::string& name, const std::string& place);

struct SparseOptions {
  SparseForm form = SparseForm::kBm25;
  double k1 = 1.2, b = 0.75;
};

// The chunks of a collection in order of their ids; a slot is an index into them.
struct ChunkTable {
  std::vector<int64_t> ids, documents;
  static Result<ChunkTable> open(const IndexStore& store, const CollectionInfo& collection);
  // ids.size() if there is no such chunk.
  size_t slot(int64_t id) const;
  // One value per slot: 1 for chunks of the documents, which must be sorted.
  std::vector<uint8_t> chunks_of(const std::vector<int64_t>& documents) const;
};

struct RankedChunk {
  uint32_t slot = 0;
  double score = 0;
  bool operator==(const RankedChunk&) const = default;
};
// Best first; equal scores by slot.
inline bool ranks_before(const RankedChunk& a, const RankedChunk& b) {
  return a.score > b.score || (a.score == b.score && a.slot < b.slot);
}
// Adds a chunk to `best`, a heap of at most k > 0 chunks with the worst in front.
inline void add_to_best(std::vector<RankedChunk>& best, const RankedChunk& chunk, size_t k) {
  if (best.size() == k) {
    if (!ranks_before(chunk, best.front())) return;
    std::pop_heap(best.begin(), best.end(), ranks_before);
    best.pop_back();
  }
  best.push_back(chunk);
  std::push_heap(best.begin(), best.end(), ranks_before);
}

// Reads posting lists when a query first needs them. Not thread-safe.
class SparseIndex {
 public:
  // The store and the table must outlive it.
  SparseIndex(const IndexStore& store, const CollectionInfo& collection, const ChunkTable& table,
              const SparseOptions& options);
  // The best k chunks that have a term of the query. `allowed`: one value per slot, or null for all.
  Result<std::vector<RankedChunk>> search(const std::vector<std::string>& terms, size_t k,
                                          const std::vector<uint8_t>* allowed = nullptr);

 private:
  struct List {
    std::vector<uint32_t> slots;
    std::vector<double> weights;  // what the term adds to the score of the slot
  };
  Result<const List*> list(const std::string& term);

  const IndexStore& store_;
  CollectionInfo collection_;
  const ChunkTable& table_;
  SparseOptions options_;
  std::unordered_map<std::string, List> lists_;
  std::vector<double> scores_;
  std::vector<uint8_t> touched_;
};

// The weight of a term in a chunk, by the formulas above.
double sparse_weight(const SparseOptions& options, double chunks, double mean_length, double having_term,
                     double count, double length);

}  // namespace makar
