// Any bytes through every cleaner, or the removal of personal data, or the removal of names and the quality
// rules (selected by the first byte): no crash, bounded output.
#include "curate/clean.h"
#include "curate/names.h"
#include "curate/near_duplicates.h"
#include "curate/pii.h"
#include "curate/quality.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(curate_text) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t kind = data[0] % (cleaners().size() + 2);
  if (kind < cleaners().size()) {
    check(cleaners()[kind].clean(text).size() <= 3 * text.size() + 16, "bounded output");
    return 0;
  }
  if (kind == cleaners().size()) {
    const PiiResult r = remove_pii(text);
    check(r.text.size() <= text.size() + 8 * r.total(), "bounded output");
    return 0;
  }
  const NamesResult names = remove_names(text, nullptr);
  check(names.text.size() <= text.size() + 6 * names.found, "bounded output");
  (void)gopher(text, {});
  std::string copy(text);
  (void)c4(copy);
  (void)minhash(text);
  return 0;
}
