// Any bytes through every augmentation that needs no model, WordNet or vectors (selected by the first byte;
// the second is its rate): no crash, bounded output, the same result twice.
#include "augment/augment.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(augment_text) {
  if (size < 2) return 0;
  const auto& kinds = augment_kinds();
  const AugmentKind& kind = kinds[data[0] % kinds.size()];
  if (*kind.needs != '\0') return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const AugmentStep step{kind.name, (1 + data[1]) / 256.0};
  TextDraws first(1, 2, 3), second(1, 2, 3);
  const std::string changed = augment_text(text, "", step, {}, first).value();
  check(changed.size() <= 3 * text.size() + 64, "bounded output");
  check(changed == augment_text(text, "", step, {}, second).value(), "the same draws give the same text");
  return 0;
}
