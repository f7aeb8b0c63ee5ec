// The JSON header of a safetensors file: {"name": {"dtype", "shape", "data_offsets"}, ..., "__metadata__":
// {...}}. Parsed in one pass directly into entries, so that memory stays a small multiple of the header.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace makar {

struct SafetensorsEntry {
  DType dtype = DType::kF32;
  Shape shape;
  size_t begin = 0, end = 0;  // bytes from the start of the data, which follows the header
};

struct SafetensorsHeader {
  std::vector<std::string> names;  // in file order
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Checks each entry by itself: known dtype, bounded shape, end - begin = bytes of the shape. The caller
// checks for overlaps, gaps and duplicate names.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, const std::string& place);

// "F32", "BF16", ...: the spelling of the format.
const char* safetensors_name(DType type);

}  // namespace makar
