// Any bytes as a llama2.c checkpoint and as its tokenizer: an Error, or tensors that can be read to the last
// byte.
#include "formats/llama2c.h"

#include "target.h"

using namespace makar;

FUZZ_TARGET(llama2c) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = parse_llama2c(bytes, std::make_shared<int>(0), "fuzz");
  if (file.ok())
    for (const GgufTensor& t : (*file)->tensors())
      check((*file)->view(t).clone().defined(), "a tensor can be copied");
  const auto tokenizer = parse_llama2c_tokenizer(bytes, size > 0 ? data[0] : 3, "fuzz");
  check(tokenizer.ok() || tokenizer.error().text().size() < 500, "an error has a bounded message");
  return 0;
}
