// Error rates from edit distances: words (WER), characters (CER), and the extended edit distance (EED,
// Stanchev et al., 2019). With several references the best one counts.
#pragma once
#include "metrics/evaluation.h"

namespace makar {

enum class ErrorUnit { kWords, kCharacters };
// Edits of all segments divided by the length of all references; 0 is perfect, above 1 is possible.
Result<Evaluation> evaluate_error_rate(const Segments& segments, ErrorUnit unit, bool lowercase);

// Edits of characters with jumps at blanks, plus a cost for visiting characters repeatedly; 0 to 1, the mean
// of the segments.
Result<Evaluation> evaluate_eed(const Segments& segments);

}  // namespace makar
