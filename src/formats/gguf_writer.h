// Writes GGUF files (version 3): streamed tensor by tensor, aligned, replaced atomically.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "formats/gguf_value.h"
#include "tensor/tensor.h"

namespace makar {

// A tensor that is computed only when it is written, so that a model need not be in memory twice.
struct GgufTensorSource {
  std::string name;
  DType dtype;
  Shape shape;                           // rows first
  std::function<Result<Tensor>()> make;  // returns a tensor of this dtype and shape
};

// The bytes of a file without tensors.
std::string gguf_bytes(const GgufFields& fields);

// Data is aligned to "general.alignment" of the fields, or to 32 bytes.
Status write_gguf(const std::string& path, const GgufFields& fields,
                  const std::vector<GgufTensorSource>& tensors);

}  // namespace makar
