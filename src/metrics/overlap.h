// Overlap metrics of two texts: scores of one hypothesis against one reference, from 0 to 1. For comparing
// every text of a list with every other: a text is prepared once.
#pragma once
#include <string>
#include <vector>

#include "metrics/bleu.h"

namespace makar {

enum class Overlap {
  kBleu,    // sacrebleu's sentence score, "tok:13a|smooth:exp|eff:yes" (metrics/bleu.h)
  kChrf,    // sacrebleu's chrF2 (metrics/chrf.h)
  kRougeL,  // the longest common subsequence of words, F1 (Lin, 2004)
  kF1,      // words in common, in any order
};

// "bleu", "chrf", "rouge-l" or "f1".
Result<Overlap> parse_overlap(const std::string& name, const std::string& place);

struct OverlapText {
  WordList words;
  BleuText ngrams = {};
};
OverlapText prepare_overlap(Overlap kind, const std::string& text);

double overlap(Overlap kind, const OverlapText& hypothesis, const OverlapText& reference);

}  // namespace makar
