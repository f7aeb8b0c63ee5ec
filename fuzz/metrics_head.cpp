// Any bytes as the head of a learned metric: a head that scores, or a located error.
#include "metrics/learned_head.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(metrics_head) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!json.ok()) return 0;
  const auto head = LearnedHead::from_json(*json, "fuzz.json");
  if (!head.ok()) {
    check(head.error().place == "fuzz.json", "an error names its file");
    return 0;
  }
  (void)head->score(std::vector<double>(head->width(), 0.5));
  check(LearnedHead::from_json(head->json(), "again")->version() == head->version(), "a head round-trips");
  return 0;
}
