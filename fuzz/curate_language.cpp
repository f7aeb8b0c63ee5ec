// Any JSON as a classifier of languages: an answer with a probability, or a bounded error.
#include "curate/language_id.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(curate_language) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz", {1 << 20, 16});
  if (!json.ok()) return 0;
  const auto model = LanguageId::from_json(*json, "fuzz");
  if (!model.ok()) {
    check(model.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  for (const char* text : {"", "the house", "\xff\xfe", "das Haus an dem Fluss"}) {
    const auto answer = model->detect(text);
    check(answer.probability >= 0 && answer.probability <= 1.0001, "a probability is between 0 and 1");
  }
  return 0;
}
