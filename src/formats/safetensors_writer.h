// Writing safetensors files: streamed from the tensors, put in place at once.
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

// The header keeps the order given; the data lies by falling element size, so that every tensor is aligned.
// transformers refuses files without the metadata {"format": "pt"}.
Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                         const SafetensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace makar
