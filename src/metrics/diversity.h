// How varied texts are: distinct n-grams, repetition, lexical diversity.
#pragma once
#include "metrics/evaluation.h"
#include "metrics/words.h"

namespace makar {

// Distinct n-grams of all texts divided by all n-grams (Li et al., 2016), for n = 1 to 4; the score is the
// ratio for `n`.
Evaluation evaluate_distinct(const std::vector<std::string>& texts, int64_t n, WordSplit split);

// The share of n-grams of a text that occurred before in it (Welleck et al., 2020), mean of the texts, for n
// = 1 to 4; the score is the share for `n`.
Evaluation evaluate_repetition(const std::vector<std::string>& texts, int64_t n, WordSplit split);

// The type-token ratio, its mean over windows of `window` words (MATTR, Covington and McFall, 2010), and the
// mean length of runs with a ratio above 0.72 (MTLD, McCarthy and Jarvis, 2010). The score is MTLD.
Evaluation evaluate_lexical_diversity(const std::vector<std::string>& texts, int64_t window, WordSplit split);

double type_token_ratio(const WordList& words);
double moving_type_token_ratio(const WordList& words, size_t window);
double mtld(const WordList& words);

}  // namespace makar
