// SentencePiece's precompiled character map: a double-array trie from source strings to offsets in a pool of
// NUL-ended replacements. {"type": "Precompiled", "precompiled_charsmap": base64}
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/normalizer.h"

namespace makar {

class CharacterMap {
 public:
  // `bytes`: u32 size of the trie in bytes, the trie, the pool. Empty bytes map nothing.
  static Result<CharacterMap> parse(std::string_view bytes);

  struct Match {
    size_t size;  // bytes of the source
    std::string_view replacement;
  };
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Match> find(std::string_view text, bool first) const;
  std::vector<uint32_t> trie_;
  std::string pool_;
};

// The normaliser. With "longest_match": true (written by our SentencePiece reader, ignored by others) it maps
// the longest source at every position, as SentencePiece does; without it, it goes by grapheme clusters as
// the Hugging Face library does.
Result<std::unique_ptr<const Normalizer>> make_character_map(const Json& json);

}  // namespace makar
