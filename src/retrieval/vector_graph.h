// The HNSW graph of a collection, as it is stored in the index file.
#pragma once
#include <memory>

#include "retrieval/hnsw.h"
#include "retrieval/store.h"

namespace makar {

class VectorGraph {
 public:
  // Labels are the ids of the chunks.
  static Result<VectorGraph> open(const IndexStore& store, const CollectionInfo& collection);
  // Applies a change of the store to the graph and stores it, within the transaction of the change.
  Status apply(const IndexStore& store, const CollectionInfo& collection, const IndexStore::Change& change);
  // Null if there are no vectors.
  const Hnsw* graph() const { return graph_.get(); }

 private:
  std::unique_ptr<Hnsw> graph_;
};

}  // namespace makar
