// Verifies an index: computes chunks and terms from the stored texts again and compares.
#pragma once
#include "retrieval/store.h"

namespace makar {

struct CheckedIndex {
  int64_t collections = 0, documents = 0, chunks = 0;
};
// The first difference is an error that names the document.
Result<CheckedIndex> check_index(const IndexStore& store);

}  // namespace makar
