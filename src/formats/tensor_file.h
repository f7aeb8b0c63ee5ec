// The interface of a file of named tensors, common to all formats.
#pragma once
#include <string>
#include <vector>

#include "formats/safetensors_header.h"
#include "tensor/tensor.h"

namespace makar {

// Errors about a missing tensor suggest a similar name only in files of at most this many tensors.
inline constexpr size_t kMaxNamesToSuggest = 20'000;

class TensorFile {
 public:
  using Entry = SafetensorsEntry;
  virtual ~TensorFile() = default;

  virtual const std::string& place() const = 0;
  virtual const std::vector<std::string>& names() const = 0;
  virtual const Entry* entry(const std::string& name) const = 0;  // nullptr when there is none
  // A view of the file where the data is contiguous and aligned, otherwise a copy.
  virtual Result<Tensor> tensor(const std::string& name) const = 0;
  virtual size_t data_bytes() const = 0;
};

}  // namespace makar
