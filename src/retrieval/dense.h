// Ranking by vectors: compares all of them (exact), or searches the HNSW graph; in
// PostgreSQL pgvector compares them.
#pragma once
#include "retrieval/sparse.h"
#include "retrieval/vector_graph.h"

namespace makar {

class DenseIndex {
 public:
  // Reads all vectors of the collection, unless they are in PostgreSQL. `exact`: without the graph. The store
  // and the table must outlive it.
  static Result<DenseIndex> open(const IndexStore& store, const CollectionInfo& collection,
                                 const ChunkTable& table, bool exact);
  // The nearest k chunks. If only few chunks are allowed, compares all of them instead of searching the
  // graph. Scores: cosine, dot product, or the negative squared distance.
  Result<std::vector<RankedChunk>> search(const std::vector<float>& query, size_t k,
                                          const std::vector<uint8_t>* allowed, int64_t ef) const;

 private:
  Result<std::vector<RankedChunk>> search_postgres(const std::vector<float>& query, size_t k,
                                                   const std::vector<uint8_t>* allowed, int64_t ef) const;
  DenseIndex(VectorRows rows, const ChunkTable& table) : rows_(std::move(rows)), table_(&table) {}
  const IndexStore* postgres_ = nullptr;  // the store, if it compares the vectors itself
  CollectionInfo collection_;
  bool exact_ = false;
  VectorRows rows_;    // by slot; empty if there is a graph
  VectorGraph graph_;  // empty if there is none
  const ChunkTable* table_;
};

}  // namespace makar
