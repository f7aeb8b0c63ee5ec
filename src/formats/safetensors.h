// A safetensors file: 8 bytes of header length, a JSON header, the data. The file is mapped; tensors are
// views. https://github.com/huggingface/safetensors#format
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/tensor_file.h"

namespace makar {

// An open file follows all rules of the format: names are unique, every tensor is inside the data, and
// together they cover it without overlap or gap. Safe to read from several threads.
class Safetensors : public TensorFile {
 public:
  using File = std::shared_ptr<const Safetensors>;
  static constexpr size_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference library

  static Result<File> open(const std::string& path);
  // The same for bytes in memory, which `owner` keeps alive; `place` names them in errors.
  static Result<File> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            std::string place);

  const std::string& place() const override { return place_; }
  const std::vector<std::string>& names() const override { return header_.names; }  // in header order
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  size_t data_bytes() const override { return data_.size(); }

  bool has(const std::string& name) const { return entry(name) != nullptr; }
  const Entry* entry(const std::string& name) const override;
  // A read-only view of the file; a copy only when the data is not aligned to its element size.
  Result<Tensor> tensor(const std::string& name) const override;

 private:
  Safetensors() = default;
  Status index_names();
  Status check_layout() const;

  std::string place_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> data_;
  size_t data_begin_ = 0;  // offset of the data in the file
  SafetensorsHeader header_;
  std::vector<uint32_t> by_name_;  // indices of names(), sorted by name
};

}  // namespace makar
