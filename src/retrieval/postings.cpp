#include "retrieval/postings.h"

#include "retrieval/varint.h"

namespace makar {

void append_posting(std::string& bytes, int64_t last, const Posting& posting) {
  check(posting.chunk >= last, "postings ascend");
  put_varint(bytes, static_cast<uint64_t>(posting.chunk - last));
  put_varint(bytes, posting.count);
  put_varint(bytes, posting.length);
}

Status read_postings(std::string_view bytes, int64_t first, const std::string& place,
                     std::vector<Posting>& out) {
  int64_t chunk = first;
  for (size_t at = 0; at < bytes.size();) {
    const bool is_first = at == 0;
    uint64_t step = 0, count = 0, length = 0;
    if (!take_varint(bytes, at, step) || !take_varint(bytes, at, count) || !take_varint(bytes, at, length) ||
        count < 1 || count > length || length > UINT32_MAX || step > (uint64_t{1} << 53) ||
        (step == 0) != is_first)
      return error_at(place, "a posting list is damaged at byte {}; build the index again", at);
    chunk += static_cast<int64_t>(step);
    out.push_back({chunk, static_cast<uint32_t>(count), static_cast<uint32_t>(length)});
  }
  return Done{};
}

}  // namespace makar
