// The JSON header of a safetensors file: {"name": {"dtype", "shape", "data_offsets"}, ..., "__metadata__":
// {...}}. Read in one pass straight into entries, so that memory stays a small multiple of the header.
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
  std::vector<std::string> names;  // in the order of the file
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Every entry alone is sound: known dtype, bounded shape, end - begin = bytes of the shape. How entries lie
// beside each other, and duplicate names, are for the caller.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, const std::string& place);

// "F32", "BF16", ...: the spelling of the format.
const char* safetensors_name(DType type);

}  // namespace makar
