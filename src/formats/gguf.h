// A GGUF file (versions 2 and 3): metadata, tensor descriptions, aligned data. The file is mapped; tensors
// are views. A split model (NAME-00001-of-00003.gguf, ...) is opened by its first file and reads as one.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/gguf_value.h"
#include "tensor/tensor.h"

namespace makar {

struct GgufTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;                // rows first, as everywhere in makar; the file stores dimensions in reverse
  size_t begin = 0, end = 0;  // bytes from the start of its file's data section
  size_t file = 0;            // index of the file in a split model
};

// An open file is valid: names and keys are unique, every tensor is aligned and inside the data section, and
// no two overlap. Safe to read from several threads.
class Gguf {
 public:
  using File = std::shared_ptr<const Gguf>;

  static Result<File> open(const std::string& path);
  // The same for bytes in memory, which `owner` keeps alive; `place` names them in errors.
  static Result<File> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            std::string place);

  // The content of another format as GGUF. The caller guarantees that all tensors lie inside `data`.
  static File of(std::span<const std::byte> data, std::shared_ptr<const void> owner, std::string place,
                 GgufFields fields, std::vector<GgufTensor> tensors);

  // Joins the files of a split model, which must be in order; the metadata is that of the first file. Tensor
  // names must be unique.
  static Result<File> join(const std::vector<File>& files);

  const std::string& place() const { return place_; }
  const GgufFields& fields() const { return fields_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order
  const GgufTensor* find(const std::string& name) const;               // nullptr when there is none
  Tensor view(const GgufTensor& tensor) const;
  size_t data_bytes() const;

 private:
  struct Data {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  Gguf() = default;
  void sort_names();
  std::string place_;
  std::vector<Data> data_;
  GgufFields fields_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> by_name_;  // indices of tensors(), sorted by name
};

// The alignment of the data section when the file has no key "general.alignment".
inline constexpr size_t kGgufDefaultAlignment = 32;

// The number of a type in GGUF files; -1 when ggml has no such type.
int32_t gguf_type(DType type);

}  // namespace makar
