// Text in which every byte has an offset into the original. Normalisers rewrite the text; offsets stay
// correct, with the conventions of the Hugging Face library: a changed character keeps the span of the
// character it replaces, an inserted character gets the span of its left neighbour.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace makar {

class AlignedText {
 public:
  AlignedText() = default;
  // Unchanged, valid text that starts at byte `base` of the original.
  AlignedText(std::string_view text, uint32_t base) : text_(text), base_(base) {}
  AlignedText(std::string text, std::vector<Span> spans, uint32_t base)
      : text_(std::move(text)), spans_(std::move(spans)), base_(base), changed_(true) {}

  const std::string& text() const { return text_; }
  uint32_t base() const { return base_; }
  bool changed() const { return changed_; }

  // The range of the original for text()[begin, end).
  Span original(size_t begin, size_t end) const;
  // One span per byte; created on demand.
  const std::vector<Span>& spans();
  AlignedText slice(size_t begin, size_t end) const;
  void replace_with(std::string text, std::vector<Span> spans);
  // Inserts before the first character; the inserted bytes get its span. An empty text stays empty.
  void prepend(std::string_view prefix);

 private:
  std::string text_;
  std::vector<Span> spans_;  // empty while !changed_
  uint32_t base_ = 0;
  bool changed_ = false;
};

// Rewrites an AlignedText from left to right, character by character.
class Rewriter {
 public:
  explicit Rewriter(AlignedText& text);
  // Writes `code`. change > 0: inserted; 0: replaces the next character; -n: replaces it and removes n more.
  void put(char32_t code, int change);
  void skip(size_t characters);  // removes characters before the first put
  void finish();

 private:
  void advance();
  AlignedText& source_;
  const std::vector<Span>& spans_;
  size_t at_ = 0;
  std::string out_;
  std::vector<Span> out_spans_;
};

}  // namespace makar
