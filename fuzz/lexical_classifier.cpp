// Any JSON as a classifier of texts or a tagger: answers, or a bounded error.
#include "lexical/hmm.h"
#include "lexical/text_classifier.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(lexical_classifier) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz", {1 << 20, 16});
  if (!json.ok()) return 0;
  if (const auto classifier = TextClassifier::from_json(*json, "fuzz"); classifier.ok()) {
    const auto answer = classifier->classify("a fine film");
    check(answer.label < classifier->labels().size(), "the label is a known one");
  } else {
    check(classifier.error().text().size() < 4000, "a bounded message");
  }
  if (const auto tagger = HmmTagger::from_json(*json, "fuzz"); tagger.ok())
    check(tagger->tag({"a", "fine", "film"}).size() == 3, "one tag per word");
  else
    check(tagger.error().text().size() < 4000, "a bounded message");
  return 0;
}
