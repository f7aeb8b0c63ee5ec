// The part of a GGUF file before its data section. Every length is checked against the file.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace makar {

struct GgufHeader {
  GgufFields fields;
  std::vector<GgufTensor> tensors;  // each valid by itself: known type, bounded shape, whole blocks
  size_t data_begin = 0;            // offset of the data section in the file
  size_t alignment = kGgufDefaultAlignment;
};

inline constexpr uint64_t kMaxGgufKeys = 1 << 16, kMaxGgufTensors = 1 << 20;

// Places in errors are "byte N", a key or a tensor; the caller adds the file.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes);

}  // namespace makar
