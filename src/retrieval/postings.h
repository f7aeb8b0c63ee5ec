// Posting lists as bytes: for each chunk that has the term, its id, the count of the term, and the length of
// the chunk in terms. Ids are stored as differences; all numbers as variable-length integers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

struct Posting {
  int64_t chunk = 0;
  uint32_t count = 0, length = 0;
  bool operator==(const Posting&) const = default;
};

// Appends to bytes whose last chunk is `last`; ids ascend.
void append_posting(std::string& bytes, int64_t last, const Posting& posting);
// Reads bytes whose first chunk is `first`. Damaged bytes are an error at `place`.
Status read_postings(std::string_view bytes, int64_t first, const std::string& place,
                     std::vector<Posting>& out);

}  // namespace makar
