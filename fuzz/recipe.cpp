// Any bytes as a recipe: settings with their lines, or a located error.
#include "train/recipe.h"

#include "data/datasets.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(recipe) {
  const auto entries = parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!entries.ok()) return 0;
  for (const auto& entry : *entries)
    for (const auto& value : entry.values) (void)parse_dataset(value).ok();
  return 0;
}
