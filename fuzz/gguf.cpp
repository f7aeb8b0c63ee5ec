// Any bytes as a GGUF file: an Error, or a file in which every value and tensor can be read to the last byte.
#include "formats/gguf.h"

#include <cstring>

#include "formats/gguf_split.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(gguf) {
  const auto owner = std::make_shared<int>(0);
  const auto file = Gguf::parse({reinterpret_cast<const std::byte*>(data), size}, owner, "fuzz");
  if (!file.ok()) {
    check(!file.error().message.empty() && file.error().text().size() < 2000,
          "an error has a bounded message");
    return 0;
  }
  for (const auto& [key, value] : (*file)->fields().list()) {
    value.integer(), value.number(), value.flag(), value.text();
    value.integers(), value.numbers(), value.texts();
    check(value.description().size() < 500, "a bounded text of a value");
  }
  // As the first file of a split, and joined with itself, which only a file without tensors allows.
  const auto others = gguf_split_paths((*file)->fields(), "/nowhere/x-00001-of-00002.gguf");
  check(!others.ok() || others->empty(), "a file in memory has no other files");
  const auto twice = Gguf::join({*file, *file});
  check(!twice.ok() || (*file)->tensors().empty(), "files with equal tensor names are not joined");
  for (const GgufTensor& t : (*file)->tensors()) {
    check((*file)->find(t.name) == &t, "a listed tensor is found");
    const Tensor view = (*file)->view(t), copy = view.clone();  // reads every byte
    check(copy.bytes() == t.end - t.begin, "a tensor has the size of its range");
  }
  return 0;
}
