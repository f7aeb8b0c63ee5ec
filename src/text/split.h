// Splits a range by matches under a behaviour, with the conventions of the Hugging Face library.
#pragma once
#include <string_view>
#include <vector>

#include "text/pre_tokenizer.h"

namespace makar {

// `matches` are ranges of `part`; the resulting ranges are appended to `out`, shifted by `base`. Empty ranges
// are dropped.
void split_by_matches(std::string_view part, uint32_t base, const std::vector<Span>& matches,
                      SplitBehavior behavior, bool invert, std::vector<Span>& out);

// The spans of all characters for which `test` holds.
template <class Test>
void match_characters(std::string_view part, Test test, std::vector<Span>& matches) {
  for (size_t at = 0; at < part.size();) {
    const auto from = static_cast<uint32_t>(at);
    if (test(next_code(part, at))) matches.push_back({from, static_cast<uint32_t>(at)});
  }
}

}  // namespace makar
