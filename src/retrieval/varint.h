// Numbers of variable length: seven bits per byte, lowest first; a set high bit means that another follows.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace makar {

inline void put_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

// False at the end of the bytes or for more than 63 bits.
inline bool take_varint(std::string_view bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 63 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace makar
