// A GGUF file (versions 2 and 3): metadata, descriptions of tensors, aligned data. Opened by mapping; tensors
// are views. A model in several files (NAME-00001-of-00003.gguf, ...) is opened by its first and reads as
// one. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
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
  Shape shape;                // rows first, as everywhere here; the file has it the other way round
  size_t begin = 0, end = 0;  // bytes from the start of its file's data
  size_t file = 0;            // which of the files of a model in several
};

// For an open file: names and keys differ, every tensor lies aligned inside the data and no two overlap. Safe
// to read from many threads.
class Gguf {
 public:
  using File = std::shared_ptr<const Gguf>;

  static Result<File> open(const std::string& path);
  // The same for bytes in memory, which `keeper` keeps alive; `place` names them in errors.
  static Result<File> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> keeper,
                            std::string place);

  // Another kind of file whose tensors lie inside `data`, as its reader has made sure.
  static File of(std::span<const std::byte> data, std::shared_ptr<const void> keeper, std::string place,
                 GgufFields fields, std::vector<GgufTensor> tensors);

  // Files of one model in their order as one, with the metadata of the first. Names of tensors must differ.
  static Result<File> join(const std::vector<File>& files);

  const std::string& place() const { return place_; }
  const GgufFields& fields() const { return fields_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the order of the file
  const GgufTensor* find(const std::string& name) const;               // nullptr when there is none
  Tensor view(const GgufTensor& tensor) const;
  size_t data_bytes() const;

 private:
  struct Data {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keeper;
  };
  Gguf() = default;
  void sort_names();
  std::string place_;
  std::vector<Data> data_;
  GgufFields fields_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> by_name_;  // indices of tensors(), sorted by name
};

// ggml's number of a type, as files hold it; -1 where ggml has none.
int32_t gguf_type(DType type);

}  // namespace makar
