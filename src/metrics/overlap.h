// How alike two texts are, by what they share: scores of one hypothesis against one reference, from 0 to 1.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace makar {

enum class Overlap {
  kBleu,    // n-grams of words up to 4 (Papineni et al., 2002): sacrebleu's sentence score,
            // "tok:13a|smooth:exp|eff:yes"
  kChrf,    // n-grams of characters up to 6, recall twice as important (Popovic, 2015): sacrebleu's chrF2
  kRougeL,  // the longest common subsequence of words, F1 (Lin, 2004)
  kF1,      // words in common, whatever their order
};

// "bleu", "chrf", "rouge-l" or "f1".
Result<Overlap> parse_overlap(const std::string& name, const std::string& place);

// A text cut up for one kind of comparison; made once, compared with many.
struct OverlapText {
  std::vector<std::string> units;                                     // words, or characters without spaces
  std::vector<std::unordered_map<std::string, int64_t>> counts = {};  // of n-grams, by n - 1
};
OverlapText prepare_overlap(Overlap kind, const std::string& text);

double overlap(Overlap kind, const OverlapText& hypothesis, const OverlapText& reference);

// Words as the standard tokenizer of machine translation evaluation cuts them (mteval-v13a).
std::vector<std::string> words_13a(std::string text);

}  // namespace makar
