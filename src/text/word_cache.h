// A cache of tokenized words in fixed tables of 4 MB and 1 MB: words of up to 15 bytes with up to 3 tokens,
// and of up to 31 bytes with up to 6. A newer word replaces the older one in its slot.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "text/hash.h"
#include "text/model.h"

namespace makar {

class WordCache {
 public:
  static constexpr size_t kMaxShortBytes = 15, kMaxShortTokens = 3, kMaxLongBytes = 31, kMaxLongTokens = 6;
  // A word as key of its table: its bytes, zeros, and its size in the last byte.
  template <int kWords>
  struct Key {
    uint64_t words[kWords];
    bool operator==(const Key&) const = default;
    uint64_t hash() const {
      uint64_t h = words[0] * 0x9E3779B97F4A7C15u;
      for (int i = 1; i < kWords; ++i) h = (h ^ h >> 32 ^ words[i]) * 0xD6E8FEB86659FD93u;
      return h ^ h >> 29;
    }
  };
  template <int kWords, size_t kTokens>
  struct Entry {
    Key<kWords> key;
    uint8_t count;
    uint8_t ends[kWords == 2 ? 3 : 7];
    uint32_t ids[kTokens];
  };
  using Short = Entry<2, kMaxShortTokens>;
  using Long = Entry<4, kMaxLongTokens>;
  static_assert(sizeof(Short) == 32 && sizeof(Long) == 64);

  // The key of a word; bytes up to `limit` may be read.
  static Key<2> short_key(const char* bytes, size_t size, const char* limit) {
    Key<2> key;
    if (bytes + 16 <= limit) {
      std::memcpy(key.words, bytes, 16);
      // Masks by shifts, without a branch on the size.
      const uint64_t low = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << size * 8) - 1;
      const uint64_t high = size <= 8 ? 0 : (uint64_t{1} << (size - 8) * 8) - 1;
      key.words[0] &= low;
      key.words[1] &= high;
    } else {
      key = {};
      std::memcpy(key.words, bytes, size);
    }
    key.words[1] |= static_cast<uint64_t>(size) << 56;
    return key;
  }
  static Key<4> long_key(const char* bytes, size_t size) {
    Key<4> key{};
    std::memcpy(key.words, bytes, size);
    key.words[3] |= static_cast<uint64_t>(size) << 56;
    return key;
  }

  // The slot of a short word can be computed first and prefetched.
  static uint32_t slot(const Key<2>& key) { return static_cast<uint32_t>(key.hash() >> (64 - kShortBits)); }
  void prefetch(uint32_t slot) const { __builtin_prefetch(&shorts_[slot]); }
  // Null when the word is not cached. Short words have 1 to kMaxShortBytes bytes, long words up to
  // kMaxLongBytes.
  const Short* find_short(const Key<2>& key, uint32_t slot) const {
    const Short& entry = shorts_[slot];
    return entry.key == key ? &entry : nullptr;
  }
  const Short* find_short(const Key<2>& key) const { return find_short(key, slot(key)); }
  const Long* find_long(const Key<4>& key) const {
    const Long& entry = longs_[key.hash() >> (64 - kLongBits)];
    return entry.key == key ? &entry : nullptr;
  }
  // Stores the tokens of a word if they fit and are contiguous.
  void put(std::string_view word, std::span<const ModelToken> tokens);

  WordCache();

 private:
  static constexpr int kShortBits = 17, kLongBits = 14;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<Short[], Free> shorts_;
  std::unique_ptr<Long[], Free> longs_;
};

}  // namespace makar
