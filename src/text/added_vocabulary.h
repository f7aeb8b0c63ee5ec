// Added tokens: strings that are matched in the text before the pipeline runs.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace makar {

// Finds the leftmost-longest match of many strings.
class StringFinder {
 public:
  void add(std::string_view text, uint32_t value);
  bool empty() const { return nodes_.size() <= 1; }
  struct Match {
    size_t begin, end;
    uint32_t value;
  };
  // The first match at or after `from`; false when there is none.
  bool next(std::string_view text, size_t from, Match& found) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;
    uint32_t value = UINT32_MAX;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<uint32_t, 256> first_{};  // node for the first byte, 0 for none
  int only_first_byte_ = -1;           // the first byte if all strings share it, else -1
};

class AddedVocabulary {
 public:
  Status build(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* by_id(uint32_t id) const;
  const AddedToken* by_content(std::string_view content) const;
  bool is_special(uint32_t id) const { return id < special_.size() && special_[id]; }
  const std::vector<bool>& special() const { return special_; }

  struct TextOrToken {
    Span range;
    const AddedToken* token = nullptr;  // null for plain text
  };
  // Splits the text at its added tokens. `normalized` selects the tokens that match after normalisation,
  // otherwise those that match before it. `specials` false keeps special tokens as text.
  void split(std::string_view text, bool normalized, bool specials, std::vector<TextOrToken>& parts) const;
  // Whether split() can find a token.
  bool can_match(bool normalized, bool specials) const { return !finders_[normalized][specials].empty(); }

 private:
  std::vector<AddedToken> tokens_;
  StringFinder finders_[2][2];  // [normalized][specials]; values are indices into tokens_
  Vocabulary by_content_;
  std::vector<uint32_t> by_id_;  // index into tokens_ + 1; 0: no added token
  std::vector<bool> special_;
};

// Turns tokens for which `is_text` is true back into text, and joins neighbours that are text.
template <class IsText>
void join_text(std::vector<AddedVocabulary::TextOrToken>& parts, IsText is_text) {
  std::vector<AddedVocabulary::TextOrToken> out;
  for (AddedVocabulary::TextOrToken part : parts) {
    if (part.token && is_text(part)) part.token = nullptr;
    if (!part.token && !out.empty() && !out.back().token)
      out.back().range.end = part.range.end;
    else
      out.push_back(part);
  }
  parts.swap(out);
}

}  // namespace makar
