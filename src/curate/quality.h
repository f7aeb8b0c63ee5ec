// Rules that distinguish running text from other text: Gopher's (Rae et al., 2021) and C4's (Raffel et al.,
// 2020). A rule that fails is the reason to drop a document.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace makar {

// The first rule that a document fails.
struct RuleResult {
  std::string rule;    // "gopher-words"; empty: passed
  std::string detail;  // "12 words, expected 50 to 100000"
};

struct GopherRules {
  double min_words = 50, max_words = 100000, min_word_length = 3, max_word_length = 10, max_symbols = 0.1,
         max_bullets = 0.9, max_ellipses = 0.3, min_alphabetic = 0.8, min_stop_words = 2;
  bool repetition = true;  // also check repeated lines and n-grams, with the paper's limits
};
RuleResult gopher(std::string_view text, const GopherRules& rules);

// Keeps lines that end in punctuation and have at least five words; drops documents with placeholder text,
// code braces or fewer than `min_sentences` sentences. `text` becomes the kept lines.
RuleResult c4(std::string& text, double min_sentences = 3);

}  // namespace makar
