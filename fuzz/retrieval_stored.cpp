// Any bytes as a posting list, a vector or a node of the HNSW graph, as an index file stores them.
#include <cmath>

#include "retrieval/hnsw.h"
#include "retrieval/postings.h"
#include "retrieval/vector_codec.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(retrieval_stored) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 0) {
    std::vector<Posting> postings;
    if (!read_postings(bytes, 1000, "fuzz", postings).ok()) return 0;
    std::string rewritten;
    int64_t last = 1000;
    for (const Posting& p : postings) append_posting(rewritten, last, p), last = p.chunk;
    std::vector<Posting> second;
    check(read_postings(rewritten, 1000, "fuzz", second).ok() && second == postings,
          "a posting list round-trips");
  } else if (data[0] % 4 == 1) {
    const auto links = read_links(bytes, "fuzz");
    if (links.ok()) {
      const auto rewritten = read_links(write_links(*links), "fuzz");
      check(rewritten.ok() && *rewritten == *links, "links round-trip");
    }
  } else {
    const auto vector = decode_vector(bytes, data[0] % 4 == 2 ? VectorType::kF32 : VectorType::kInt8, "fuzz");
    if (vector.ok())
      for (const float x : *vector) check(std::isfinite(x), "finite values");
  }
  return 0;
}
