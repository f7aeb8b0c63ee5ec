// The weights of pytorch_model.bin: a state dict saved by torch.save, in a zip archive (since PyTorch 1.6) or
// in the older sequence of pickles. The pickle is read as data (pickle.h): it can name tensors and their
// storages, nothing else. Tensors are views of the mapped file where they are contiguous and aligned.
#pragma once
#include <map>
#include <memory>

#include "formats/tensor_file.h"

namespace makar {

class TorchFile : public TensorFile {
 public:
  using File = std::shared_ptr<const TorchFile>;
  static Result<File> open(const std::string& path);
  // The same for bytes in memory, which `owner` keeps alive; `place` names them in errors.
  static Result<File> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            std::string place);

  const std::string& place() const override { return place_; }
  const std::vector<std::string>& names() const override { return names_; }
  const Entry* entry(const std::string& name) const override;
  Result<Tensor> tensor(const std::string& name) const override;
  size_t data_bytes() const override { return data_bytes_; }

 private:
  friend class TorchReader;
  struct TensorInfo {
    Entry entry;  // begin and end are offsets in the file
    std::span<const std::byte> storage;
    int64_t offset = 0;  // of the first element in the storage
    Shape strides;
  };
  TorchFile() = default;

  std::string place_;
  std::shared_ptr<const void> owner_;
  std::vector<std::string> names_;
  std::map<std::string, TensorInfo> tensors_;
  size_t data_bytes_ = 0;
};

}  // namespace makar
