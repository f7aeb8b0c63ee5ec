// Smoothed n-gram models from counts.
// - add-k: p(w | h) = (c(hw) + k) / (c(h) + k V); unseen words of a context are equally likely.
// - good-turing: c* = (c + 1) N_{c+1} / N_c (Good, 1953) for small c; unseen words of a context are equally
//   likely.
// - katz: Good-Turing with Katz's discounts (1987); unseen words by the shorter context.
// - kneser-ney: modified Kneser-Ney, interpolated (Chen and Goodman, 1998).
// All of them are exact as back-off models: where unseen words are equally likely, shorter n-grams get 1 / V.
// V counts </s> and <unk>, not <s>.
#pragma once
#include <array>
#include <functional>
#include <string>

#include "lexical/ngram_model.h"
#include "lexical/sentence_ngrams.h"

namespace makar {

struct NgramOptions {
  std::string smoothing = "kneser-ney";
  double k = 1;                // add-k
  int64_t max_discounted = 5;  // Good-Turing and Katz: larger counts are not discounted
  std::vector<int64_t> prune;  // by length: n-grams that occur at most this often are dropped
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};
Status check(const NgramOptions& options, int order);

Result<NgramModel> train_ngrams(SentenceNgrams counts, const NgramOptions& options);

// Good-Turing's c* for c = 1 to `max`, from the number of n-grams that occur c times; c itself where a count
// is missing. [0] is unused.
std::vector<double> good_turing(const std::vector<uint64_t>& count_of_counts, int64_t max);
// Katz's discount ratios d_c for c = 1 to `max`; 1 where the formula gives none between 0 and 1.
std::vector<double> katz_discounts(const std::vector<uint64_t>& count_of_counts, int64_t max);
// [1] to [3]: discounts of counts 1, 2, and 3 or more; [0] is unused. nullopt if a count of counts is missing
// or a discount is negative.
std::optional<std::array<double, 4>> kneser_ney_discounts(const std::vector<uint64_t>& count_of_counts);

}  // namespace makar
