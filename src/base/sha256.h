// SHA-256 (FIPS 180-4), for manifests and checkpoints.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  std::string hex();  // 64 digits; ends the hash, so call it once

 private:
  void block(const uint8_t* p);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};  // an incomplete block: its first rest_bytes_ bytes are set
  size_t rest_bytes_ = 0;
  uint64_t bytes_ = 0;  // added so far
};

std::string sha256_of(std::string_view text);
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace makar
