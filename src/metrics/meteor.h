// METEOR as nltk computes it (Lavie and Agarwal, 2007): words match exactly, by stem, or as synonyms.
#pragma once
#include "metrics/evaluation.h"
#include "metrics/words.h"

namespace makar {

struct MeteorOptions {
  double alpha = 0.9, beta = 3, gamma = 0.5;
  WordSplit words = WordSplit::kNone;
  // The synonyms of a word; empty: none are looked up.
  std::function<std::vector<std::string>(const std::string&)> synonyms = {};
};

// 0 to 1.
double meteor(const WordList& hypothesis, const WordList& reference, const MeteorOptions& options);
// The mean of the segments, each with its best reference.
Result<Evaluation> evaluate_meteor(const Segments& segments, const MeteorOptions& options);

}  // namespace makar
