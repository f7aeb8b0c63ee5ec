// Any bytes as a file of groups: counts of the words of a text, or a bounded error.
#include "curate/representation.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(curate_groups) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto groups = Representation::parse(text, "fuzz");
  if (!groups.ok()) {
    check(groups.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  check(groups->count(text).size() == groups->groups().size(), "one count per group");
  return 0;
}
