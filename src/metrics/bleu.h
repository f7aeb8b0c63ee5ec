// BLEU (Papineni et al., 2002), equal to sacrebleu.
#pragma once
#include <span>

#include "metrics/evaluation.h"
#include "metrics/ngrams.h"
#include "metrics/words.h"

namespace makar {

enum class Smoothing { kNone, kFloor, kAddK, kExp };
Result<Smoothing> parse_smoothing(const std::string& name, const std::string& place);

struct BleuOptions {
  WordSplit words = WordSplit::k13a;
  bool lowercase = false;
  Smoothing smoothing = Smoothing::kExp;
  double smooth_value = -1;  // negative: 0.1 for floor, 1 for add-k
  int64_t order = 4;         // the longest n-gram
  // Only orders that the hypothesis is long enough for; for single sentences.
  bool effective_order = false;
};

// A text with its n-gram counts: prepared once, compared with many.
struct BleuText {
  size_t words = 0;
  std::vector<NgramCounts> counts = {};  // index n - 1
};
BleuText prepare_bleu(const std::string& text, const BleuOptions& options);

// Lengths of hypothesis and closest reference, then matches by order, then n-grams of the hypothesis by
// order. The statistics of a corpus are the sums over its segments.
Statistics bleu_statistics(const BleuText& hypothesis, std::span<const BleuText* const> references);

struct BleuScore {
  double score = 0;                // 0 to 100
  std::vector<double> precisions;  // percent, by order
  double brevity = 0;              // the penalty of a short hypothesis
};
BleuScore bleu_score(std::span<const double> statistics, const BleuOptions& options);

std::string bleu_signature(const BleuOptions& options, const std::string& references);
Result<Evaluation> evaluate_bleu(const Segments& segments, const BleuOptions& options);

// The mean BLEU of each text with all the others as references (Zhu et al., 2018): high where texts resemble
// each other.
Evaluation evaluate_self_bleu(const std::vector<std::string>& texts, const BleuOptions& options);

}  // namespace makar
