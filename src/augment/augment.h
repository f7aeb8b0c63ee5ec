// Augmentation of texts: thirteen kinds of changes, each with a rate, applied in order. A changed text is a
// pure function of (text, kinds, seed, record, copy).
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "lexical/text_classifier.h"

namespace makar {

// The random numbers of one copy of one record, in order.
class TextDraws {
 public:
  TextDraws(uint64_t seed, uint64_t record, uint64_t copy)
      : rng_(seed, Purpose::kSynthetic, record * kMaxCopies + copy % kMaxCopies) {}
  double uniform() { return rng_.uniform_double(next_++); }
  size_t below(size_t count) {  // count > 0
    return std::min(count - 1, static_cast<size_t>(uniform() * static_cast<double>(count)));
  }

 private:
  static constexpr uint64_t kMaxCopies = 4096;  // further copies of a record repeat earlier ones
  Rng rng_;
  uint64_t next_ = 0;
};

// What some kinds need; an empty function is a resource that is not available.
struct AugmentResources {
  std::function<std::vector<std::string>(const std::string& word)> synonyms;   // of a lower-case word
  std::function<std::vector<std::string>(const std::string& word)> neighbors;  // by word vectors
  // Words that fit between two texts, the best first.
  std::function<Result<std::vector<std::string>>(const std::string& before, const std::string& after)> masked;
  std::function<Result<std::string>(const std::string&text, uint64_t seed)> back_translate, paraphrase;
  const TextClassifier* classifier = nullptr;                // for adversarial changes
  std::map<std::string, std::vector<std::string>> entities;  // kind -> names; the built-in ones if empty
};

struct AugmentStep {
  std::string kind;
  double rate = 0.1;  // share of the words (noise: of the letters) that change; at least one changes
};
// "swap" or "swap:0.2". Errors name the known kinds.
Result<AugmentStep> parse_step(const std::string& text);

// One row per kind: its name and what it needs; docs/data.md describes the changes.
struct AugmentKind {
  const char* name;
  const char* needs;  // the resource, or ""
};
const std::vector<AugmentKind>& augment_kinds();
// Whether the resources of a step are available; the error names what is missing.
Status check(const AugmentStep& step, const AugmentResources& resources);

constexpr size_t kMaxAugmentedBytes = 100'000;  // longer texts are not changed
// The changed text; equal to `text` if a kind found nothing to change. `label`: for adversarial changes.
Result<std::string> augment_text(const std::string& text, const std::string& label, const AugmentStep& step,
                                 const AugmentResources& resources, TextDraws& draws);

// Names by kind, from a file with "person\tAlice" per line.
Result<std::map<std::string, std::vector<std::string>>> read_entities(const std::string& path);
// The built-in names by kind.
const std::map<std::string, std::vector<std::string>>& common_entities();

}  // namespace makar
