// Overlap metrics of two texts: scores of one hypothesis against one reference, from 0 to 1.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace makar {

enum class Overlap {
  kBleu,    // word n-grams up to 4 (Papineni et al., 2002): sacrebleu's sentence score,
            // "tok:13a|smooth:exp|eff:yes"
  kChrf,    // character n-grams up to 6, recall weighted twice (Popovic, 2015): sacrebleu's chrF2
  kRougeL,  // the longest common subsequence of words, F1 (Lin, 2004)
  kF1,      // words in common, in any order
};

// "bleu", "chrf", "rouge-l" or "f1".
Result<Overlap> parse_overlap(const std::string& name, const std::string& place);

// A text prepared for one metric: prepared once, compared with many.
struct OverlapText {
  std::vector<std::string> units;                                     // words, or characters without spaces
  std::vector<std::unordered_map<std::string, int64_t>> counts = {};  // n-gram counts; index n - 1
};
OverlapText prepare_overlap(Overlap kind, const std::string& text);

double overlap(Overlap kind, const OverlapText& hypothesis, const OverlapText& reference);

// Splits into words as the standard tokenizer of machine translation evaluation does (mteval-v13a).
std::vector<std::string> words_13a(std::string text);

}  // namespace makar
