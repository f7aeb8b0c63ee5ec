// How often words occur near each other, within a memory limit: sorted runs are written to temporary files
// and merged. A pair at distance d counts 1/d (as in GloVe) or 1. Sums are exact integers, so the result does
// not depend on the memory limit or on the order of the text.
#pragma once
#include <functional>

#include "lexical/word_stream.h"

namespace makar {

struct Cooccurrence {
  uint32_t word, context;
  float count;
};

struct CooccurrenceOptions {
  int64_t window = 10;                 // on each side, at most 20
  bool by_distance = true;             // a pair at distance d counts 1/d instead of 1
  size_t max_bytes = size_t{1} << 30;  // of the table in memory
  std::function<void(uint64_t done, uint64_t total)> progress = [](uint64_t, uint64_t) {};
};

// Symmetric, sorted by word, then context.
Result<MappedRecords> count_cooccurrences(const WordStream& text, const CooccurrenceOptions& options);

}  // namespace makar
