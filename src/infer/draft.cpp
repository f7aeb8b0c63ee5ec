#include "infer/draft.h"

#include <algorithm>

namespace makar {

std::vector<int64_t> LookupDrafter::draft(std::span<const int64_t> tokens, int64_t max) {
  const auto size = static_cast<int64_t>(tokens.size());
  constexpr int64_t kMaxDistance = 4096;  // tokens from the end that are searched
  for (int64_t n = std::min(max_, size - 1); n >= min_; --n) {
    const auto suffix = tokens.last(static_cast<size_t>(n));
    for (int64_t at = size - n - 1; at >= std::max<int64_t>(0, size - kMaxDistance); --at) {
      if (!std::equal(suffix.begin(), suffix.end(), tokens.begin() + at)) continue;
      const int64_t from = at + n, count = std::min(max, size - from);
      return {tokens.begin() + from, tokens.begin() + from + count};
    }
  }
  return {};
}

}  // namespace makar
