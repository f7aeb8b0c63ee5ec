// Any bytes as pytorch_model.bin: an Error, or a file in which every tensor can be read.
#include "formats/torch_file.h"

#include "base/error.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(torch_file) {
  const auto owner = std::make_shared<int>(0);
  const auto file = TorchFile::parse({reinterpret_cast<const std::byte*>(data), size}, owner, "fuzz");
  if (!file.ok()) {
    check(!file.error().message.empty() && file.error().text().size() < 2000,
          "an error has a bounded message");
    return 0;
  }
  for (const auto& name : (*file)->names()) {
    const auto tensor = (*file)->tensor(name);
    check(tensor.ok() && tensor->shape() == (*file)->entry(name)->shape, "a listed tensor opens");
    check(tensor->bytes() <= size, "a tensor is not larger than the file");
    check(tensor->clone().defined(), "a tensor can be read");
  }
  return 0;
}
