// Ranking by vectors: all of them compared (exact), or a search in the HNSW graph.
#pragma once
#include "retrieval/sparse.h"
#include "retrieval/vector_graph.h"

namespace makar {

class DenseIndex {
 public:
  // Reads all vectors of the collection. `exact`: without the graph. The table must outlive it.
  static Result<DenseIndex> open(const IndexStore& store, const CollectionInfo& collection,
                                 const ChunkTable& table, bool exact);
  // The nearest k chunks. With a graph, a search that only few chunks are allowed for compares with each of
  // them. Scores: cosine, dot product, or the negative squared distance.
  Result<std::vector<RankedChunk>> search(const std::vector<float>& query, size_t k,
                                          const std::vector<uint8_t>* allowed, int64_t ef) const;

 private:
  DenseIndex(VectorRows rows, const ChunkTable& table) : rows_(std::move(rows)), table_(&table) {}
  VectorRows rows_;    // by slot; empty if there is a graph
  VectorGraph graph_;  // empty if there is none
  const ChunkTable* table_;
};

}  // namespace makar
