// Exact match and F1 of short answers, as SQuAD's script computes them (Rajpurkar et al., 2016 and 2018).
#pragma once
#include "metrics/evaluation.h"
#include "metrics/words.h"

namespace makar {

// Lower case, without punctuation and the articles a, an, the.
WordList squad_words(const std::string& answer);
bool squad_exact(const std::string& answer, const std::string& reference);
double squad_f1(const std::string& answer, const std::string& reference);  // 0 to 1

// Percent, with the best reference for each answer. The score is the F1, or the exact matches.
Result<Evaluation> evaluate_squad(const Segments& segments, bool exact);

}  // namespace makar
