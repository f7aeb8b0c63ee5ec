// Truncation into windows, and padding.
#pragma once
#include "text/tokenizer.h"

namespace makar {

// Cuts one or two sequences so that they hold at most max_length tokens; what is cut goes to `overflow` in
// windows of the same length that share `stride` tokens.
Status truncate(std::vector<Encoding>& parts, const Truncation& truncation);
void pad(Encoding& encoding, const Padding& padding, size_t length);

}  // namespace makar
