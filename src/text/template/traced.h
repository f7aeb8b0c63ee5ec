// Text with the origin of each byte: the template or its input data. Every string operation of the
// interpreter uses Traced, so each byte of a message keeps its origin in the output.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace makar::jinja {

// Origins of a byte, as bits.
using Origin = uint8_t;
constexpr Origin kFromTemplate = 0;
constexpr Origin kFromContent = 1;    // from messages, tools, documents or extra variables
constexpr Origin kFromAssistant = 2;  // written inside a generation block
constexpr Origin kFromMarker = 4;     // marks the end of the final message when it is continued
constexpr Origin kFromReply = 8;      // from a message whose role is assistant

class Traced {
 public:
  struct OriginRange {
    uint32_t end;  // one past the last byte
    Origin origin;
  };

  Traced() = default;
  explicit Traced(std::string text, Origin origin = kFromTemplate)
      : text_(std::move(text)), origin_(origin) {}

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  // Bytes of memory in use, for the budget.
  size_t footprint() const {
    return sizeof(Traced) + text_.capacity() + ranges_.capacity() * sizeof(OriginRange);
  }

  Origin origin_at(size_t byte) const;
  // The union of the origins of all bytes.
  Origin origins() const;
  std::vector<OriginRange> ranges() const;

  void append(std::string_view text, Origin origin);
  void append(const Traced& other) { append(other, 0, other.size(), 0); }
  // Appends bytes [begin, end) of `other`; each origin is combined with `extra`.
  void append(const Traced& other, size_t begin, size_t end, Origin extra = 0);
  Traced slice(size_t begin, size_t end) const;

 private:
  std::string text_;
  Origin origin_ = kFromTemplate;    // of all bytes while ranges_ is empty
  std::vector<OriginRange> ranges_;  // otherwise: consecutive ranges that cover text_; adjacent ranges differ
};

// Whitespace as defined by Python's str.strip.
bool is_blank(char32_t c);
// The code point at `at` of valid UTF-8, and its length.
inline char32_t code_point(std::string_view text, size_t at, size_t* length) {
  size_t end = at;
  const char32_t c = next_code(text, end);
  *length = end - at;
  return c;
}

// The range of the text without leading and trailing whitespace (or characters of `chars`).
struct ByteRange {
  size_t begin, end;
};
ByteRange strip_range(std::string_view text, bool left, bool right, const std::string* chars = nullptr);

}  // namespace makar::jinja
