// Any bytes as a recipe: settings with their lines, or a located error.
#include "data/datasets.h"
#include "train/recipe.h"

using namespace makar;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto entries = parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!entries.ok()) return 0;
  for (const auto& entry : *entries)
    for (const auto& value : entry.values) (void)parse_dataset(value).ok();
  return 0;
}
