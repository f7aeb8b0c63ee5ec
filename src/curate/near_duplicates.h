// Near-duplicates by MinHash (Broder, 1997) and banding: documents whose sets of 5-word shingles have an
// estimated Jaccard similarity of at least a threshold. Signatures are in mapped temporary files; memory
// grows by 4 bytes per document.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "lexical/word_stream.h"

namespace makar {

constexpr size_t kSignature = 128, kBandRows = 4, kBands = kSignature / kBandRows;
using Signature = std::array<uint32_t, kSignature>;

// Words in lower case without punctuation; a text of fewer than 5 words is one shingle.
Signature minhash(std::string_view text);
double similarity(const Signature& a, const Signature& b);  // share of equal entries

class NearDuplicates {
 public:
  static Result<NearDuplicates> create();
  Status add(const Signature& signature);  // the next document
  // For each document, the first document of its group; itself if it is the first.
  Result<std::vector<uint32_t>> groups(double threshold);

 private:
  NearDuplicates(MappedRecords signatures, MappedRecords bands)
      : signatures_(std::move(signatures)), bands_(std::move(bands)) {}
  MappedRecords signatures_, bands_;
  uint32_t count_ = 0;
};

}  // namespace makar
