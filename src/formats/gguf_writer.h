// Writing GGUF files (version 3): streamed tensor by tensor, aligned, put in place at once.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "formats/gguf_value.h"
#include "tensor/tensor.h"

namespace makar {

// A tensor that is made only when its turn to be written has come, so that a model need not lie in memory
// twice.
struct GgufSource {
  std::string name;
  DType dtype;
  Shape shape;                           // rows first
  std::function<Result<Tensor>()> make;  // with this dtype and shape
};

// The bytes of a file without tensors.
std::string gguf_bytes(const GgufFields& fields);

// Data is aligned to "general.alignment" of the fields, or 32.
Status write_gguf(const std::string& path, const GgufFields& fields, const std::vector<GgufSource>& tensors);

}  // namespace makar
