// Writes safetensors files: streamed from the tensors, replaced atomically.
#pragma once
#include <map>
#include <span>
#include <string>

#include "base/error.h"
#include "tensor/tensor.h"

namespace makar {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// The header keeps the given order; the data is sorted by decreasing element size, so that every tensor is
// aligned. transformers refuses files without the metadata {"format": "pt"}.
Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                         const SafetensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace makar
