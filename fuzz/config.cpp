// Any bytes as a config.json: every accessor on every key returns a value within bounds or an Error.
#include "formats/config.h"

#include <algorithm>

#include "target.h"

using namespace makar;

namespace {

void read_all(const Config& config, int depth) {
  auto keys = config.keys();
  if (keys.size() > 50) keys.resize(50);
  for (const auto& key : keys) {
    if (const auto v = config.integer(key, -5, 1 << 20); v.ok())
      check(*v >= -5 && *v <= 1 << 20, "within bounds");
    if (const auto v = config.number(key, 0, 1e6); v.ok()) check(*v >= 0 && *v <= 1e6, "within bounds");
    if (const auto v = config.integers(key, 0, 9, 100); v.ok()) check(v->size() <= 100, "within bounds");
    check(config.has(key) || !config.text(key).ok(), "a null value counts as absent");
    (void)config.boolean(key).ok();
    (void)config.numbers(key, 0, 1).ok();
    (void)config.texts(key).ok();
    (void)config.choice(key, {"relu", "gelu"}).ok();
    check(config.integer({"hidden_size", "n_embd"}, 1, 0).error().text().size() < 2000, "a bounded message");
    if (const auto nested = config.object(key); nested.ok() && depth < 3) read_all(*nested, depth + 1);
  }
}

}  // namespace

FUZZ_TARGET(config) {
  const auto config = Config::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (config.ok()) read_all(*config, 0);
  return 0;
}
