// Any bytes as a safetensors file: an Error, or a file in which every tensor can be read to the last byte.
#include "formats/safetensors.h"

#include <cstring>

#include "base/error.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(safetensors) {
  const auto owner = std::make_shared<int>(0);
  const auto file = Safetensors::parse({reinterpret_cast<const std::byte*>(data), size}, owner, "fuzz");
  if (!file.ok()) {
    check(!file.error().message.empty() && file.error().text().size() < 2000,
          "an error has a bounded message");
    return 0;
  }
  size_t total = 0;
  for (const auto& name : (*file)->names()) {
    const auto tensor = (*file)->tensor(name);
    check(tensor.ok(), "a listed tensor opens");
    const auto copy = tensor->clone();  // reads every byte
    check(copy.bytes() == 0 || std::memcmp(copy.raw(), tensor->raw(), copy.bytes()) == 0,
          "the bytes are stable");
    total += copy.bytes();
  }
  check(total == (*file)->data_bytes(), "the tensors cover the data");
  return 0;
}
