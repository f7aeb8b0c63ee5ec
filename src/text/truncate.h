// Truncation into windows, and padding.
#pragma once
#include "text/tokenizer.h"

namespace makar {

// How many tokens of each sequence (one or two) fit together into max_length.
Result<std::vector<size_t>> truncated_lengths(const std::vector<size_t>& sizes, const Truncation& truncation);
// The `length` tokens of a sequence that truncation keeps, without overflow.
Encoding truncated(const Encoding& encoding, size_t length, const Truncation& truncation);
// Truncates one or two sequences to at most max_length tokens. With `overflow`, the rest is kept in windows
// of the same length that overlap by `stride` tokens.
Status truncate(std::vector<Encoding>& parts, const Truncation& truncation, bool overflow);
void pad(Encoding& encoding, const Padding& padding, size_t length);

}  // namespace makar
