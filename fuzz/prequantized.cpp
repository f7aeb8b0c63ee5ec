// A safetensors file with the quantization_config in its metadata entry "scheme": an Error, or prequantized
// matrices that decode to their shapes.
#include "formats/prequantized.h"

#include "base/error.h"
#include "formats/safetensors.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(prequantized) {
  const auto owner = std::make_shared<int>(0);
  const auto file = Safetensors::parse({reinterpret_cast<const std::byte*>(data), size}, owner, "fuzz");
  if (!file.ok()) return 0;
  const auto text = (*file)->metadata().find("scheme");
  if (text == (*file)->metadata().end()) return 0;
  const auto config = Config::parse(text->second, "fuzz");
  if (!config.ok()) return 0;
  const auto scheme = read_prequantized_scheme(*config);
  if (!scheme.ok() || !*scheme) return 0;
  const auto found = find_prequantized(
      **scheme, (*file)->names(), [&](const std::string& n) { return (*file)->entry(n); }, "fuzz");
  if (!found.ok()) return 0;
  for (const auto& [name, entry] : *found) {
    PrequantizedMatrix matrix = entry;
    std::map<std::string, Tensor> parts;
    for (const auto& [role, part] : matrix.parts) parts[role] = *(*file)->tensor(part);
    if (parts.count("state")) {
      const auto shape = four_bit_shape(parts["state"], "fuzz");
      if (!shape.ok()) continue;
      matrix.shape = *shape;
    }
    const auto t = decode_prequantized(**scheme, matrix, parts, "fuzz");
    check(!t.ok() || t->shape() == matrix.shape, "a decoded matrix has its shape");
  }
  return 0;
}
