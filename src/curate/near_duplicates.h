// Near-duplicates by MinHash (Broder, 1997) and banding: documents whose sets of 5-word shingles have a
// Jaccard similarity of at least a threshold. The signatures estimate it; where the estimate is close to the
// threshold, the caller computes it. Signatures are in temporary files, of which one band is read at a time;
// memory grows by 4 bytes per document.
#pragma once
#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "lexical/word_stream.h"

namespace makar {

constexpr size_t kSignatureSize = 128, kBandRows = 4, kBands = kSignatureSize / kBandRows;
using Signature = std::array<uint32_t, kSignatureSize>;

// The hashes of the shingles of a text, in order, with repetitions: words in lower case without punctuation;
// a text of fewer than 5 words is one shingle.
std::vector<uint64_t> shingles(std::string_view text);
Signature minhash(std::string_view text);
// The Jaccard similarity of two texts.
double exact_similarity(std::string_view a, std::string_view b);
double similarity(const Signature& a, const Signature& b);  // share of equal entries

class NearDuplicates {
 public:
  static Result<NearDuplicates> create();
  Status add(const Signature& signature);  // the next document
  // For each document, the first document of its group; itself if it is the first. `exact` returns the
  // similarity of two documents; it is called if their estimate is within 0.15 of the threshold.
  using Exact = std::function<Result<double>(uint32_t, uint32_t)>;
  Result<std::vector<uint32_t>> groups(double threshold, const Exact& exact);

 private:
  explicit NearDuplicates(MappedRecords signatures) : signatures_(std::move(signatures)) {}
  MappedRecords signatures_;
  std::vector<MappedRecords> bands_;
  uint32_t count_ = 0;
};

}  // namespace makar
