// Generates a text with the masks of a grammar, choosing by the bytes of the input, and checks that a token
// is allowed exactly when its bytes are accepted.
#pragma once
#include <string>
#include <vector>

#include "infer/grammar/grammar.h"

namespace makar {

inline const std::vector<std::string>& small_vocabulary() {
  static const std::vector<std::string> tokens = [] {
    std::vector<std::string> out = {"",         "{\"",      "\":",   "\",\"", "\"}",  "}}",   "[[",  "]]",
                                    "true",     "null",     "  ",    "\n",    "ab",   "abc",  "a\"", "12",
                                    "-0.",      "e+",       "\\u00", "\\\"",  "\xC3", "\xA9", "é",   "aé",
                                    "\xF0\x9F", "\x98\x80", "😀b",    "a, b",  "::= ", "1:2"};
    for (int c = 0x20; c < 0x7F; ++c) out.push_back(std::string(1, static_cast<char>(c)));
    return out;
  }();
  return tokens;
}

inline void walk_grammar(const Result<Grammar>& grammar, const uint8_t* data, size_t size) {
  if (!grammar.ok()) {
    check(!grammar.error().text().empty() && grammar.error().text().size() < 2000, "a bounded message");
    return;
  }
  static const TokenTrie trie(small_vocabulary(), {0});
  const auto& tokens = small_vocabulary();
  std::vector<uint64_t> mask(trie.words());
  GrammarState state(*grammar);
  for (size_t i = 0; i < 10; ++i) {
    if (!state.mask(trie, mask).ok()) return;
    std::vector<size_t> allowed;
    for (size_t id = 1; id < tokens.size(); ++id) {
      const bool bit = mask[id / 64] >> (id % 64) & 1;
      GrammarState next = state;
      const bool accepted = next.accept(tokens[id]);
      if (next.limit()) return;
      check(accepted == bit, "the mask agrees with accept");
      if (bit) allowed.push_back(id);
    }
    check(bool(mask[0] & 1) == state.may_end(), "the end token is allowed exactly at an end");
    if (allowed.empty()) return;
    const size_t pick = size ? data[i * 7 % size] + i : i;
    check(state.accept(tokens[allowed[pick % allowed.size()]]), "an allowed token is accepted");
  }
}

inline GrammarLimits small_limits() {
  GrammarLimits limits;
  limits.nodes = 3000, limits.edges = 20'000, limits.depth = 40, limits.alternatives = 100,
  limits.steps = 50'000;
  limits.nesting = 50;
  return limits;
}

}  // namespace makar
