// Scans the text of a grammar: the position, counts and escapes that regular expressions and GBNF share.
#pragma once
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/quote.h"
#include "infer/grammar/expr.h"

namespace makar::grammar {

class Scanner {
 public:
  Scanner(std::string_view text, const char* what) : text_(text), what_(what) {}

  bool done() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }
  bool take(std::string_view token) {
    if (!starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void skip(size_t count = 1) { at_ += count; }
  std::string_view slice(size_t from) const { return text_.substr(from, at_ - from); }

  template <class... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return error_at(fmt::format("{} at byte {}", what_, at_), format, std::forward<Args>(args)...);
  }

  Result<uint32_t> code_point() {
    const uint32_t c = next_code_point(text_, at_);
    if (c > kMaxCodePoint) return error("the text is not UTF-8");
    return c;
  }
  // `count` hexadecimal digits; 0: all that follow, up to 6.
  Result<uint32_t> hex(int count);
  // The escape for one character after a backslash: \n \r \t \f \v \0 \xHH \x{H} \uHHHH \u{H} \UHHHHHHHH, or
  // the character itself if it is not a letter or digit.
  Result<uint32_t> escape();
  // A decimal number up to a million.
  Result<int64_t> number();
  // {n} {n,} {n,m}; the opening brace is already consumed.
  struct Count {
    int64_t min, max;
  };
  Result<Count> count();

 private:
  std::string_view text_;
  const char* what_;
  size_t at_ = 0;
};

}  // namespace makar::grammar
