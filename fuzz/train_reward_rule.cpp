// Any text as a --reward of makar grpo: a reward term, or a bounded message. Its last number, if any, is
// finite.
#include <cmath>

#include "target.h"
#include "train/reward_rules.h"

using namespace makar;

FUZZ_TARGET(train_reward_rule) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto number = last_number(text)) check(std::isfinite(*number), "a finite number");
  const auto spec = parse_reward_term(text);
  if (!spec.ok()) return 0;
  check(std::isfinite(spec->weight), "a finite weight");
  if (spec->name == "program" || text.size() > 4096) return 0;
  const auto term = make_reward_term(*spec);
  if (!term.ok()) check(term.error().text().size() < 40000, "a bounded message");
  return 0;
}
