// Random texts generated under the masks of a grammar.
#pragma once
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "infer/grammar/grammar.h"

namespace makar {

// Tokens like those of a byte-level vocabulary: all bytes, pieces of JSON, words, parts of characters. Id 0
// is the end token.
inline std::vector<std::string> test_vocabulary() {
  std::vector<std::string> out = {""};
  for (int b = 0; b < 256; ++b) out.push_back(std::string(1, static_cast<char>(b)));
  for (const char* piece : {"{\"",
                            "\":",
                            "\": ",
                            "\",\"",
                            "\", \"",
                            "\"}",
                            "\"]",
                            "}}",
                            "},",
                            "[[",
                            "]]",
                            "],",
                            "[]",
                            "{}",
                            "true",
                            "false",
                            "null",
                            "  ",
                            "    ",
                            "\n\n",
                            ",\n",
                            ": ",
                            "ab",
                            "abc",
                            "hello",
                            " the",
                            " world",
                            "a\"",
                            "name",
                            "\"name\"",
                            "12",
                            "123",
                            "0.",
                            "-1",
                            "e+",
                            "E1",
                            "\\u",
                            "\\u00",
                            "\\n",
                            "\\\"",
                            "\xC3\xA9",
                            "a\xC3",
                            "\xF0\x9F",
                            "\x98\x80",
                            "\xE4\xB8\xAD",
                            "\xE6\x96\x87",
                            "\xF0\x9F\x98\x80!",
                            "2024",
                            "-0",
                            "1.5",
                            "\"\"",
                            ".com",
                            "@",
                            "x1",
                            "000"})
    out.push_back(piece);
  // Longer than kEquivalentBytes, beyond which masks are computed differently.
  for (const size_t n : {25, 40, 90}) {
    out.push_back(std::string(n, 'a'));
    out.push_back(std::string(n, 'b') + "\xC3\xA9");
    out.push_back(std::string(n, 'a') + "\",\"" + std::string(30, 'c'));
  }
  return out;
}

// Whether the whole text matches.
inline bool matches(const Grammar& grammar, std::string_view text) {
  GrammarState state(grammar);
  return state.accept(text) && state.may_end();
}

struct GrammarText {
  std::string text;
  bool ended = false;  // by the end token, or because nothing else may follow
};

// Generates a text of random allowed tokens. The end token, where it is allowed, becomes more probable with
// the length, so that most texts end.
inline GrammarText write_text(const Grammar& grammar, const TokenTrie& trie,
                              const std::vector<std::string>& tokens, uint64_t seed,
                              size_t max_tokens = 300) {
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<uint64_t> mask(trie.words());
  GrammarState state(grammar);
  GrammarText out;
  for (size_t i = 0; i < max_tokens; ++i) {
    check(state.mask(trie, mask).ok(), "the mask must not exceed a limit of the grammar");
    const auto r = rng.bits(i);
    if (state.may_end() && r[1] % max_tokens < i + max_tokens / 20) return out.ended = true, out;
    std::vector<uint32_t> allowed, closing;
    for (size_t w = 0; w < mask.size(); ++w)
      for (uint64_t word = mask[w]; word; word &= word - 1) {
        const uint32_t id = static_cast<uint32_t>(w * 64) + static_cast<uint32_t>(std::countr_zero(word));
        if (tokens[id].empty()) continue;
        allowed.push_back(id);
        const char last = tokens[id].back();
        if (last == '"' || last == '}' || last == ']' || last == ')') closing.push_back(id);
      }
    if (allowed.empty()) {
      check(state.must_end(), "a text that cannot go on may end");
      return out.ended = true, out;
    }
    const auto& from = !closing.empty() && r[2] % max_tokens < i + max_tokens / 10 ? closing : allowed;
    const uint32_t id = from[r[0] % from.size()];
    check(state.accept(tokens[id]), "what the mask allows is accepted");
    out.text += tokens[id];
  }
  return out;
}

}  // namespace makar
