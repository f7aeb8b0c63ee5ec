// ROUGE (Lin, 2004): n-grams, longest common subsequences, skip-bigrams.
#pragma once
#include "metrics/evaluation.h"

namespace makar {

enum class RougeMode {
  kRougeScore,  // as the Python package rouge_score; with several references, the best one counts
  kRouge155,    // as ROUGE-1.5.5: counts of all references are pooled, L is computed over sentences
};
Result<RougeMode> parse_rouge_mode(const std::string& name, const std::string& place);

struct RougeOptions {
  RougeMode mode = RougeMode::kRougeScore;
  // Stems words of more than three letters: with nltk's Porter stemmer, or the original one in the
  // mode 1.5.5.
  bool stem = false;
  double weight = 1.2;           // W: a run of k words counts k^weight
  int64_t skip = 4;              // S and SU: max words between the words of a pair; negative: no limit
  std::string separator = "\n";  // between sentences, for Lsum
};

// Names: rouge1 to rouge9, rougeL, rougeLsum, rougeW, rougeS, rougeSU.
bool is_rouge_kind(const std::string& name);

// Precision, recall and F of each kind; the score is the F of the first. Mean of the segments, 0 to 1.
Result<Evaluation> evaluate_rouge(const Segments& segments, const std::vector<std::string>& kinds,
                                  const RougeOptions& options);

}  // namespace makar
