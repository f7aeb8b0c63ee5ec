#include "text/train/substring_index.h"

#include <algorithm>

namespace makar {
namespace {

// The first characters of a suffix packed into 64 bits, zeros after the end of the word.
uint64_t packed_prefix(const std::vector<uint32_t>& text, size_t at, int bits, int count) {
  uint64_t key = 0;
  bool ended = false;
  for (int i = 0; i < count; ++i) {
    const uint32_t c = ended || at + i >= text.size() ? 0 : text[at + i];
    ended = ended || c == 0;
    key = key << bits | c;
  }
  return key;
}

// The length of the common prefix, including the end of the word, up to `max`.
uint32_t common_prefix_length(const std::vector<uint32_t>& text, size_t a, size_t b, uint32_t max) {
  for (uint32_t n = 0; n < max; ++n) {
    if (text[a + n] != text[b + n]) return n;
    if (text[a + n] == 0) return n + 1;
  }
  return max;
}

}  // namespace

SubstringIndex index_substrings(const std::vector<uint32_t>& text, uint32_t max_length) {
  SubstringIndex out;
  uint32_t largest = 1;
  for (const uint32_t c : text) largest = std::max(largest, c);
  int bits = 1;
  while (bits < 32 && (largest >> bits) != 0) ++bits;
  const int count = 64 / bits;
  const uint32_t depth = max_length + 1;

  struct Suffix {
    uint64_t key;
    uint32_t at;
  };
  std::vector<Suffix> order;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != 0) order.push_back({packed_prefix(text, i, bits, count), static_cast<uint32_t>(i)});
  std::sort(order.begin(), order.end(),
            [](const Suffix& a, const Suffix& b) { return a.key != b.key ? a.key < b.key : a.at < b.at; });
  // Suffixes that agree in all packed characters: compare further.
  const uint64_t low_mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  for (size_t begin = 0; begin < order.size() && static_cast<uint32_t>(count) < depth;) {
    size_t end = begin + 1;
    while (end < order.size() && order[end].key == order[begin].key) ++end;
    if (end - begin > 1 && (order[begin].key & low_mask) != 0)
      std::sort(order.begin() + begin, order.begin() + end, [&](const Suffix& a, const Suffix& b) {
        for (uint32_t n = count; n < depth; ++n) {
          const uint32_t x = text[a.at + n], y = text[b.at + n];
          if (x != y) return x < y;
          if (x == 0) break;
        }
        return a.at < b.at;
      });
    begin = end;
  }
  out.suffixes.reserve(order.size());
  for (const Suffix& s : order) out.suffixes.push_back(s.at);
  order = {};

  // The intervals of equal prefixes, closed when the common prefix gets shorter.
  struct OpenInterval {
    uint32_t length, first;
  };
  std::vector<OpenInterval> open;
  const auto& suffixes = out.suffixes;
  for (size_t i = 1; i <= suffixes.size(); ++i) {
    const uint32_t lcp =
        i < suffixes.size() ? common_prefix_length(text, suffixes[i - 1], suffixes[i], depth) : 0;
    auto first = static_cast<uint32_t>(i - 1);
    while (!open.empty() && open.back().length > lcp) {
      const OpenInterval top = open.back();
      open.pop_back();
      first = top.first;
      // Skip substrings that contain the end of a word: their last character is the end mark.
      if (top.length >= 2 && top.length <= max_length && text[suffixes[first] + top.length - 1] != 0)
        out.substrings.push_back({first, static_cast<uint32_t>(i - 1), top.length});
    }
    if (lcp > 0 && (open.empty() || open.back().length < lcp)) open.push_back({lcp, first});
  }
  return out;
}

}  // namespace makar
