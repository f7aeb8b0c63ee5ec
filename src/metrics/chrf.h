// chrF (Popovic, 2015) and chrF++ (2017), equal to sacrebleu.
#pragma once
#include <span>

#include "metrics/evaluation.h"
#include "metrics/ngrams.h"

namespace makar {

struct ChrfOptions {
  int64_t characters = 6, words = 0;  // the longest n-grams; words 2 is chrF++
  double beta = 2;                    // the weight of recall
  bool lowercase = false, whitespace = false;
  bool smooth = false;  // every order counts, with a tiny value for those without n-grams (chrF++.py)
};

// n-gram counts: of characters by order, then of words by order.
std::vector<NgramCounts> prepare_chrf(const std::string& text, const ChrfOptions& options);
// For each order: n-grams of the hypothesis, of the reference, and in common.
Statistics chrf_statistics(const std::vector<NgramCounts>& hypothesis,
                           const std::vector<NgramCounts>& reference);
double chrf_score(std::span<const double> statistics, const ChrfOptions& options);  // 0 to 100

Result<Evaluation> evaluate_chrf(const Segments& segments, const ChrfOptions& options);

}  // namespace makar
