// Translation edit rate (Snover et al., 2006): edits and shifts of phrases, as tercom and sacrebleu search
// them.
#pragma once
#include "metrics/evaluation.h"
#include "metrics/words.h"

namespace makar {

// Edits that turn the hypothesis into the reference, a shift counting as one. kLimit when the budget is
// spent.
Result<int64_t> ter_edits(const std::vector<uint32_t>& hypothesis, const std::vector<uint32_t>& reference,
                          WorkBudget& work);

// Percent: edits to the best reference divided by the mean length of the references.
Result<Evaluation> evaluate_ter(const Segments& segments, const TerText& text);

}  // namespace makar
