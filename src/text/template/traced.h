// Text that knows where each byte came from: the template, or the data given to it. Every operation on
// strings inside the interpreter goes through Traced, so a byte of a message never loses its mark on the way
// out.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace makar::jinja {

// Marks of a byte, as bits.
using Origin = uint8_t;
constexpr Origin kFromTemplate = 0;
constexpr Origin kFromContent = 1;    // from messages, tools, documents or extra variables
constexpr Origin kFromAssistant = 2;  // written inside a generation block
constexpr Origin kFromMarker = 4;     // the end of the final message that is to be continued

class Traced {
 public:
  struct Run {
    uint32_t end;  // one past the last byte
    Origin origin;
  };

  Traced() = default;
  explicit Traced(std::string text, Origin origin = kFromTemplate)
      : text_(std::move(text)), origin_(origin) {}

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  // Bytes of memory held, for the budget.
  size_t footprint() const { return sizeof(Traced) + text_.capacity() + runs_.capacity() * sizeof(Run); }

  Origin origin_at(size_t byte) const;
  // The marks of all bytes together.
  Origin origins() const;
  std::vector<Run> runs() const;

  void append(std::string_view text, Origin origin);
  void append(const Traced& other) { append(other, 0, other.size(), 0); }
  // Bytes [begin, end) of `other`, each mark joined with `extra`.
  void append(const Traced& other, size_t begin, size_t end, Origin extra = 0);
  Traced slice(size_t begin, size_t end) const;

  // The same marks on text of equal length (case mapping within ASCII and the like).
  Traced with_text(std::string text) const;

 private:
  std::string text_;
  Origin origin_ = kFromTemplate;  // of all bytes while runs_ is empty
  std::vector<Run> runs_;          // otherwise: consecutive, covering text_, neighbours differ
};

// Whitespace as Python's str.strip sees it.
bool is_blank(char32_t c);
// The code point at `at` of valid UTF-8, and its length.
inline char32_t code_point(std::string_view text, size_t at, size_t* length) {
  size_t end = at;
  const char32_t c = next_code(text, end);
  *length = end - at;
  return c;
}

// [begin, end) of the text without the whitespace at its sides (or without the characters of `chars`).
struct ByteRange {
  size_t begin, end;
};
ByteRange strip_range(std::string_view text, bool left, bool right, const std::string* chars = nullptr);

}  // namespace makar::jinja
