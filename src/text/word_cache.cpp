#include "text/word_cache.h"

#include <new>

namespace makar {
namespace {

template <class E>
void fill(E& entry, std::span<const ModelToken> tokens) {
  entry.count = static_cast<uint8_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    entry.ids[i] = tokens[i].id;
    entry.ends[i] = static_cast<uint8_t>(tokens[i].end);
  }
}

}  // namespace

// Zeroed pages come from the system untouched, so a short-lived cache is cheap.
WordCache::WordCache()
    : shorts_(static_cast<Short*>(std::calloc(size_t{1} << kShortBits, sizeof(Short)))),
      longs_(static_cast<Long*>(std::calloc(size_t{1} << kLongBits, sizeof(Long)))) {
  if (!shorts_ || !longs_) throw std::bad_alloc();
}

void WordCache::put(std::string_view word, std::span<const ModelToken> tokens) {
  uint32_t at = 0;
  for (const ModelToken& token : tokens) {
    if (token.begin != at) return;
    at = token.end;
  }
  if (word.empty() || at > word.size()) return;
  if (word.size() <= kMaxShortBytes && tokens.size() <= kMaxShortTokens) {
    const auto key = short_key(word.data(), word.size(), word.data() + word.size());
    Short& entry = shorts_[key.hash() >> (64 - kShortBits)];
    entry.key = key;
    fill(entry, tokens);
  } else if (word.size() <= kMaxLongBytes && tokens.size() <= kMaxLongTokens) {
    const auto key = long_key(word.data(), word.size());
    Long& entry = longs_[key.hash() >> (64 - kLongBits)];
    entry.key = key;
    fill(entry, tokens);
  }
}

}  // namespace makar
