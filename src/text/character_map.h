// SentencePiece's precompiled character map: a double-array trie from source strings to offsets in a pool of
// NUL-terminated replacements. {"type": "Precompiled", "precompiled_charsmap": base64}
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
  // Whether any source starts with the text.
  bool any_starts_with(std::string_view text) const;

 private:
  // Follows `byte` from `node`; false when no source continues with it.
  bool step(size_t& node, char byte, uint32_t& unit) const;
  size_t root() const { return offset(trie_[0]); }
  // Units of darts-clone: bit 8: a leaf follows; bits 10 and up: the offset (shifted by 8 when bit 9 is set);
  // bits 0-7 and 31: the label. A leaf unit has its value in bits 0-30.
  static size_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  std::optional<Match> find(std::string_view text, bool stop_at_first) const;
  std::vector<uint32_t> trie_;
  std::string pool_;
};

// The normaliser. With "longest_match": true (written by makar's SentencePiece reader, ignored by other
// programs) it maps the longest source at every position, as SentencePiece does; without it, it works on
// grapheme clusters as the Hugging Face library does.
Result<std::unique_ptr<const Normalizer>> make_character_map(const Json& json);

}  // namespace makar
