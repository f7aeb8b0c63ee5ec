#include "text/same_tokens.h"

#include <algorithm>
#include <array>
#include <set>

namespace makar {
namespace {

constexpr const char* kSamples[] = {
    "Hello, world! This is a test of the tokenizers.",
    "  leading spaces,\ttabs\n\nand new lines \r\n",
    "It's 3.14159 and 1234567890; we've paid $1,000 on 2024-05-17 at 10:30.",
    "def f(x):\n    return x ** 2  # squared\n",
    "Größe, naïve café, Ελληνικά, русский текст, العربية, हिन्दी",
    "日本語のテキストと中文字符，한국어",
    "👩‍👩‍👧 emoji 🎉 and symbols ≤ ∑ ½ ™ …",
    "CamelCase snake_case UPPER lower http://example.com/?q=1&r=2",
};
constexpr uint32_t kPiecesAtOnce = 64;  // pieces of the vocabulary in one text
constexpr uint32_t kMostTexts = 256;    // of pieces, spread over the vocabulary

// Consecutive pieces as words, without `added`: files may disagree which of these are control tokens.
std::string text_of_pieces(const Tokenizer& t, uint32_t first, uint32_t count,
                           const std::set<uint32_t>& added) {
  std::string out;
  for (uint32_t id = first; id < first + count; ++id)
    if (t.token(id) && !added.contains(id)) out += t.decode(std::array{id}, true) + " ";
  return out;
}

std::optional<std::string> difference(const Tokenizer& a, const Tokenizer& b, const std::string& text,
                                      SpecialText special) {
  EncodeOptions options;
  options.offsets = false, options.special_text = special;
  const auto x = a.encode(text, options), y = b.encode(text, options);
  if (x.ok() == y.ok() && (!x.ok() || x->ids == y->ids)) return std::nullopt;
  const std::string shown = text.size() > 60 ? text.substr(0, 60) + "..." : text;
  return fmt::format("the text {} has other ids", dump(Json(shown)));
}

std::optional<std::string> difference(const Tokenizer& a, const Tokenizer& b) {
  const auto size = static_cast<uint32_t>(std::min(a.vocab_size(), b.vocab_size()));
  for (uint32_t id = 0; id < size; ++id) {
    const auto x = a.token(id), y = b.token(id);
    if (x && y && *x != *y) return fmt::format("id {} is {} and {}", id, dump(Json(*x)), dump(Json(*y)));
  }
  for (const char* text : kSamples)
    if (auto found = difference(a, b, text, SpecialText::kPlain)) return found;
  std::set<uint32_t> added;
  for (const Tokenizer* t : {&a, &b})
    for (const AddedToken& token : t->added_tokens()) added.insert(token.id);
  const uint32_t texts = std::min(kMostTexts, size / kPiecesAtOnce + 1);
  for (uint32_t i = 0; i < texts; ++i) {
    const auto first = static_cast<uint32_t>(uint64_t{size} * i / texts);
    const std::string text = text_of_pieces(a, first, std::min(kPiecesAtOnce, size - first), added);
    if (auto found = difference(a, b, text, SpecialText::kPlain)) return found;
  }
  for (const Tokenizer* t : {&a, &b})
    for (const AddedToken& token : t->added_tokens()) {
      if (token.id >= size) continue;
      if (auto found = difference(a, b, token.content, SpecialText::kParse)) return found;
    }
  return std::nullopt;
}

}  // namespace

Status check_same_tokens(const Tokenizer& a, const Tokenizer& b, const std::string& place,
                         const std::string& other) {
  const auto found = difference(a, b);
  if (!found) return Done{};
  return error_at(place, "has a different tokenizer from {}: {}", other, *found);
}

}  // namespace makar
