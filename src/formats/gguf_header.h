// The part of a GGUF file before its data, read with every length bounded by the file.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace makar {

struct GgufHeader {
  GgufFields fields;
  std::vector<GgufTensor> tensors;  // each sound alone: known type, bounded shape, whole blocks
  size_t data_begin = 0;            // offset of the data in the file
  size_t alignment = 32;
};

inline constexpr uint64_t kMaxGgufKeys = 1 << 16, kMaxGgufTensors = 1 << 20;

// Places in errors are "byte N" or a key or tensor; the caller prefixes the file.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes);

}  // namespace makar
