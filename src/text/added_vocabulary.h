// Added tokens: strings that are taken out of the text before the pipeline sees it.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace makar {

// Finds the leftmost-longest of many strings.
class StringFinder {
 public:
  void add(std::string_view text, uint32_t value);
  bool empty() const { return nodes_.size() <= 1; }
  struct Found {
    size_t begin, end;
    uint32_t value;
  };
  // The first match at or after `from`; false when there is none.
  bool next(std::string_view text, size_t from, Found& found) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;
    uint32_t value = UINT32_MAX;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<uint32_t, 256> first_{};  // node reached by the first byte, 0 for none
  int only_ = -1;                      // the one first byte, when there is one only
};

class AddedVocabulary {
 public:
  Status build(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* by_id(uint32_t id) const;
  const AddedToken* by_content(std::string_view content) const;
  bool is_special(uint32_t id) const { return id < special_.size() && special_[id]; }
  const std::vector<bool>& special() const { return special_; }

  struct Part {
    Span range;
    const AddedToken* token = nullptr;  // null for text
  };
  // Cuts the text at its added tokens. `normalized`: by the tokens that match after normalisation, else by
  // those that match before. `specials`: false leaves special tokens in the text.
  void split(std::string_view text, bool normalized, bool specials, std::vector<Part>& parts) const;
  // Whether split() could find anything.
  bool any(bool normalized, bool specials) const { return !finders_[normalized][specials].empty(); }

 private:
  std::vector<AddedToken> tokens_;
  StringFinder finders_[2][2];  // [normalized][specials]; values are indices into tokens_
  Vocabulary by_content_;
  std::vector<uint32_t> by_id_;  // index + 1
  std::vector<bool> special_;
};

}  // namespace makar
