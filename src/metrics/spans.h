// F1 of labelled spans in sequences of tags, as seqeval and conlleval count them.
#pragma once
#include "metrics/evaluation.h"

namespace makar {

struct LabelledSpan {
  std::string label;
  size_t begin = 0, end = 0;  // tokens [begin, end)
  auto operator<=>(const LabelledSpan&) const = default;
};
// Spans of tags "B-PER", "I-PER", "O" (IOB1, IOB2) and "E-", "S-", "L-", "U-" (IOBES, BILOU). A change of
// label begins a span, as in conlleval.
std::vector<LabelledSpan> spans_of(const std::vector<std::string>& tags);

// Tags by [sequence][token]; both have the same lengths. Micro F1 over all spans.
Evaluation evaluate_spans(const std::vector<std::vector<std::string>>& predicted,
                          const std::vector<std::vector<std::string>>& truth);

}  // namespace makar
