// Fast hashes of short byte strings and numbers (multiply and fold). Not collision-resistant: bound the
// probing when keys are untrusted.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace makar {

inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15u, kB = 0xE7037ED1A0B428DBu;
  const char* p = bytes.data();
  size_t left = bytes.size();
  uint64_t h = left * kA;
  for (; left > 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = fold_multiply(h ^ word, kB);
  }
  uint64_t word = 0;
  std::memcpy(&word, p, left);
  return fold_multiply(h ^ word ^ kA, kB);
}

inline uint64_t hash_u64(uint64_t key) {
  return fold_multiply(key ^ 0x9E3779B97F4A7C15u, 0xE7037ED1A0B428DBu);
}

inline uint64_t hash_pair(uint32_t a, uint32_t b) {
  return (static_cast<uint64_t>(a) << 32 | b) * 0x9E3779B97F4A7C15u;
}

}  // namespace makar
