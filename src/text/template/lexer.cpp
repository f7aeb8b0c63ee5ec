#include "text/template/lexer.h"

#include <charconv>

#include "text/template/traced.h"

namespace makar::jinja {
namespace {

// "\r\n" and "\r" become "\n"; one newline at the end is dropped.
std::string normalise_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_start(unsigned char c) { return std::isalpha(c) || c == '_' || c >= 0x80; }
bool is_name_part(unsigned char c) { return is_name_start(c) || std::isdigit(c); }

class Lexer {
 public:
  Lexer(std::string_view source, const Limits& limits)
      : source_(normalise_newlines(source)), limits_(limits) {}

  std::deque<Token> run() {
    while (at_ < source_.size()) lex_text_and_tag();
    push(Token::Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(const std::string& why) {
    advance_to(at_);
    throw Failure(Error::Kind::kInvalid, why, line_, column_);
  }
  // Advances the line and column counters to a byte offset; offsets must not decrease.
  void advance_to(size_t offset) {
    for (; counted_bytes_ < offset && counted_bytes_ < source_.size(); ++counted_bytes_) {
      if (source_[counted_bytes_] == '\n')
        ++line_, column_ = 1;
      else if (!is_utf8_continuation(source_[counted_bytes_]))
        ++column_;
    }
  }
  Token& push(Token::Type type, std::string text) {
    if (tokens_.size() > static_cast<size_t>(limits_.max_nodes) * 4)
      fail_limit(fmt::format("the template has more than {} tokens", limits_.max_nodes * 4));
    Token& token = tokens_.emplace_back();
    token.type = type, token.text = std::move(text), token.line = line_, token.column = column_;
    return token;
  }
  bool match(size_t at, std::string_view word) const { return source_.compare(at, word.size(), word) == 0; }
  size_t skip_space(size_t at) const {
    for (size_t n; at < source_.size(); at += n)
      if (!is_blank(code_point(source_, at, &n))) break;
    return at;
  }

  // Data up to the next tag, then the tag.
  void lex_text_and_tag() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos) return push_data(source_.size(), 0, false), void(at_ = source_.size());
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+')
                          ? source_[tag + 2]
                          : 0;
    push_data(tag, sign, kind != '{');
    at_ = tag;
    advance_to(at_);
    if (kind == '%' && raw_block(tag, sign)) return;
    at_ = tag + 2 + (sign ? 1 : 0);
    if (kind == '#') return comment();
    push(kind == '{' ? Token::Type::kPrintBegin : Token::Type::kBlockBegin, "");
    lex_tag(kind == '{' ? '}' : '%');
  }

  // Emits the data before a tag, without the trailing whitespace that the tag's sign or lstrip_blocks
  // removes.
  void push_data(size_t end, char sign, bool block) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    const bool tag = end < source_.size() || sign || block;
    if (tag && sign == '-') {
      text = text.substr(0, strip_range(text, false, true).end);
    } else if (tag && sign != '+' && block) {
      const size_t newline = text.rfind('\n');
      const size_t from = newline == std::string::npos ? 0 : newline + 1;
      if ((from > 0 || line_starting_) &&
          strip_range(text.substr(from), true, false).begin == text.size() - from)
        text = text.substr(0, from);
    }
    advance_to(at_);
    if (!text.empty()) push(Token::Type::kData, std::string(text));
    advance_to(end);
    line_starting_ = false;
  }

  // After a closing "%}", "}}" or "#}" at `end`: skips the whitespace removed by `-`, or the newline removed
  // by trim_blocks.
  void finish_tag(size_t end, char sign, bool trim) {
    if (sign == '-')
      end = skip_space(end);
    else if (trim && sign != '+' && end < source_.size() && source_[end] == '\n')
      ++end;
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    at_ = end;
    advance_to(at_);
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail_here("a comment {# is not closed by #}");
    const char sign =
        end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+') ? source_[end - 1] : 0;
    finish_tag(end + 2, sign, true);
  }

  // {% raw %} ... {% endraw %}
  bool raw_block(size_t tag, char sign) {
    size_t p = skip_space(tag + 2 + (sign ? 1 : 0));
    if (!match(p, "raw")) return false;
    p = skip_space(p + 3);
    const bool minus = match(p, "-%}");
    if (!minus && !match(p, "%}")) return false;
    p += minus ? 3 : 2;
    if (minus) p = skip_space(p);
    for (size_t open = p; (open = source_.find("{%", open)) != std::string::npos; open += 2) {
      const char open_sign =
          open + 2 < source_.size() && (source_[open + 2] == '-' || source_[open + 2] == '+')
              ? source_[open + 2]
              : 0;
      size_t q = skip_space(open + 2 + (open_sign ? 1 : 0));
      if (!match(q, "endraw")) continue;
      q = skip_space(q + 6);
      const char close_sign = q < source_.size() && (source_[q] == '-' || source_[q] == '+') ? source_[q] : 0;
      if (!match(q + (close_sign ? 1 : 0), "%}")) continue;
      line_starting_ = source_[p - 1] == '\n';
      at_ = p;
      push_data(open, open_sign, true);
      finish_tag(q + (close_sign ? 1 : 0) + 2, close_sign, true);
      return true;
    }
    fail_here("{% raw %} is not closed by {% endraw %}");
  }

  // Tokens of an expression or statement up to its closing tag.
  void lex_tag(char closer) {
    const Token::Type end = closer == '}' ? Token::Type::kPrintEnd : Token::Type::kBlockEnd;
    std::string open_brackets;
    while (true) {
      at_ = skip_space(at_);
      advance_to(at_);
      if (at_ >= source_.size())
        fail_here(closer == '}' ? "{{ is not closed by }}" : "{% is not closed by %}");
      if (open_brackets.empty()) {
        const char sign = source_[at_] == '-' || (source_[at_] == '+' && closer == '%') ? source_[at_] : 0;
        const size_t p = at_ + (sign ? 1 : 0);
        if (p + 1 < source_.size() && source_[p] == closer && source_[p + 1] == '}') {
          push(end, "");
          return finish_tag(p + 2, sign, closer == '%');
        }
      }
      const auto c = static_cast<unsigned char>(source_[at_]);
      if (is_name_start(c))
        name();
      else if (std::isdigit(c))
        number();
      else if (c == '"' || c == '\'')
        string();
      else
        lex_operator(open_brackets);
    }
  }

  void name() {
    size_t end = at_;
    while (end < source_.size() && is_name_part(static_cast<unsigned char>(source_[end]))) ++end;
    push(Token::Type::kName, source_.substr(at_, end - at_));
    at_ = end;
  }

  void number() {
    size_t end = at_;
    std::string digits;
    const auto take_digits = [&] {
      while (end < source_.size() &&
             (std::isdigit(static_cast<unsigned char>(source_[end])) || source_[end] == '_')) {
        if (source_[end] != '_') digits += source_[end];
        ++end;
      }
    };
    const auto digit_at = [&](size_t i) {
      return i < source_.size() && std::isdigit(static_cast<unsigned char>(source_[i]));
    };
    if (source_[at_] == '0' && at_ + 1 < source_.size() &&
        std::string_view("xXoObB").find(source_[at_ + 1]) != std::string_view::npos) {
      const char base = static_cast<char>(std::tolower(source_[at_ + 1]));
      end += 2;
      while (end < source_.size() &&
             (std::isxdigit(static_cast<unsigned char>(source_[end])) || source_[end] == '_')) {
        if (source_[end] != '_') digits += source_[end];
        ++end;
      }
      return integer(digits, base == 'x' ? 16 : base == 'o' ? 8 : 2, end);
    }
    take_digits();
    bool real = false;
    if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      real = true, digits += '.', ++end;
      take_digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (digit_at(end + 1 + sign)) {
        real = true;
        digits += source_.substr(end, 1 + sign), end += 1 + sign;
        take_digits();
      }
    }
    if (!real) return integer(digits, 10, end);
    Token& token = push(Token::Type::kFloat, "");
    std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
    at_ = end;
  }

  void integer(const std::string& digits, int base, size_t end) {
    int64_t value = 0;
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (code != std::errc() || stop != digits.data() + digits.size())
      fail_here("an integer must fit in 64 bits");
    push(Token::Type::kInt, "").integer = value;
    at_ = end;
  }

  void string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("a string is not closed");
    push(Token::Type::kString, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    at_ = end + 1;
  }

  // Resolves Python escapes; keeps unknown ones unchanged.
  std::string unescape(std::string_view in) {
    std::string out;
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] != '\\' || i + 1 >= in.size()) {
        out += in[i];
        continue;
      }
      const char c = in[++i];
      constexpr std::string_view kLetters = "ntrbfav0\\'\"", kMeanings("\n\t\r\b\f\a\v\0\\'\"", 11);
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (c >= '0' && c <= '7') {
        char32_t code = 0;
        size_t n = 0;
        for (; n < 3 && i + n < in.size() && in[i + n] >= '0' && in[i + n] <= '7'; ++n)
          code = code * 8 + (in[i + n] - '0');
        append_utf8(out, code);
        i += n - 1;
      } else if (const size_t k = kLetters.find(c); k != std::string_view::npos) {
        out += kMeanings[k];
      } else if (digits) {
        uint32_t code = 0;
        const char* from = in.data() + i + 1;
        const char* to = from + std::min(digits, in.size() - i - 1);
        const auto [stop, error] = std::from_chars(from, to, code, 16);
        if (error != std::errc() || stop != from + digits || code > 0x10FFFF ||
            (code >= 0xD800 && code <= 0xDFFF))
          fail_here(fmt::format("\\{} needs {} hexadecimal digits of a Unicode character", c, digits));
        append_utf8(out, code);
        i += digits;
      } else if (c != '\n') {
        out += '\\', out += c;
      }
    }
    return out;
  }

  void lex_operator(std::string& open_brackets) {
    for (const std::string_view two : {"**", "//", "==", "!=", "<=", ">="})
      if (match(at_, two)) return push(Token::Type::kOperator, std::string(two)), void(at_ += 2);
    const char c = source_[at_];
    if (std::string_view("+-*/%~<>=.:,|()[]{};").find(c) == std::string_view::npos)
      fail_here(fmt::format(
          "unexpected character '{}'",
          c >= ' ' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c))));
    if (c == '(')
      open_brackets += ')';
    else if (c == '[')
      open_brackets += ']';
    else if (c == '{')
      open_brackets += '}';
    else if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty()) fail_here(fmt::format("unexpected '{}'", c));
      if (open_brackets.back() != c)
        fail_here(fmt::format("unexpected '{}', expected '{}'", c, open_brackets.back()));
      open_brackets.pop_back();
    }
    push(Token::Type::kOperator, std::string(1, c));
    ++at_;
  }

  std::string source_;
  const Limits& limits_;
  std::deque<Token> tokens_;
  size_t at_ = 0;
  size_t counted_bytes_ = 0;  // bytes up to here are counted in line_ and column_
  int line_ = 1, column_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::deque<Token> tokenize(std::string_view source, const Limits& limits) {
  if (static_cast<int64_t>(source.size()) > limits.max_template_bytes)
    fail_limit(
        fmt::format("the template has {} bytes; the limit is {}", source.size(), limits.max_template_bytes));
  if (!is_valid_utf8(source)) fail("the template is not valid UTF-8");
  return Lexer(source, limits).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case Token::Type::kData:
      return "text";
    case Token::Type::kPrintBegin:
      return "'{{'";
    case Token::Type::kPrintEnd:
      return "'}}'";
    case Token::Type::kBlockBegin:
      return "'{%'";
    case Token::Type::kBlockEnd:
      return "'%}'";
    case Token::Type::kString:
      return "a string";
    case Token::Type::kInt:
    case Token::Type::kFloat:
      return "a number";
    case Token::Type::kEnd:
      return "the end of the template";
    default:
      return "'" + (token.text.size() <= 40 ? token.text : token.text.substr(0, 40) + "...") + "'";
  }
}

}  // namespace makar::jinja
