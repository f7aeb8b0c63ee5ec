#include "infer/grammar/regex.h"

#include "infer/grammar/scanner.h"

namespace makar::grammar {
namespace {

const CodePoints kDigitClass = {{'0', '9'}}, kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                 kSpace = {{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x2028, 0x2029}, {0xFEFF, 0xFEFF}},
                 kNewline = {{'\n', '\n'}};

class RegexReader {
 public:
  RegexReader(std::string_view text, const Limits& limits, WorkBudget& work, const RegexOptions& options)
      : s_(text, "regular expression"), limits_(limits), work_(work), o_(options) {}

  Result<ExprPtr> read() {
    std::vector<ExprPtr> branches;
    do {
      const bool from_start = s_.take("^");
      bool to_end = false;
      MAKAR_TRY(auto parts, terms(0, &to_end));
      if (o_.search && !from_start) parts.insert(parts.begin(), anything());
      if (o_.search && !to_end) parts.push_back(anything());
      branches.push_back(sequence(std::move(parts)));
    } while (s_.take("|"));
    if (!s_.done()) return s_.error("unexpected '{}'", s_.peek());
    return choice(std::move(branches));
  }

 private:
  ExprPtr one_of(const CodePoints& set) const { return o_.character ? o_.character(set) : character(set); }
  ExprPtr anything() const { return repeat(one_of(CodePoints::all()), 0, -1); }

  Result<ExprPtr> alternatives(int depth) {
    if (depth > limits_.nesting)
      return error_of(Error::Kind::kLimit, "regular expression", "groups are nested deeper than {}",
                      limits_.nesting);
    std::vector<ExprPtr> branches;
    do {
      MAKAR_TRY(auto parts, terms(depth, nullptr));
      branches.push_back(sequence(std::move(parts)));
    } while (s_.take("|"));
    return choice(std::move(branches));
  }

  // Parses up to '|', ')' or the end. `end`: set if a final '$' was found; null: none is allowed.
  Result<std::vector<ExprPtr>> terms(int depth, bool* end) {
    std::vector<ExprPtr> parts;
    while (!s_.done() && s_.peek() != '|' && s_.peek() != ')') {
      if (!work_.spend(4)) return work_.error("regular expression");
      if (end && s_.peek() == '$' && (s_.peek(1) == '\0' || s_.peek(1) == '|')) {
        s_.skip();
        *end = true;
        break;
      }
      MAKAR_TRY(auto part, atom(depth));
      MAKAR_TRY(part, with_quantifier(std::move(part)));
      parts.push_back(std::move(part));
    }
    return parts;
  }

  Result<ExprPtr> with_quantifier(ExprPtr part) {
    Scanner::Count c{1, 1};
    if (s_.take("*"))
      c = {0, -1};
    else if (s_.take("+"))
      c = {1, -1};
    else if (s_.take("?"))
      c = {0, 1};
    else if (s_.peek() == '{') {
      s_.skip();
      MAKAR_TRY(c, s_.count());
    } else {
      return part;
    }
    s_.take("?");
    if (s_.peek() == '*' || s_.peek() == '+' || s_.peek() == '?' || s_.peek() == '{')
      return s_.error("a repetition of a repetition; put the first one into a group");
    return repeat(std::move(part), c.min, c.max);
  }

  Result<ExprPtr> atom(int depth) {
    const char c = s_.peek();
    if (c == '(') return group(depth);
    if (c == '[') {
      s_.skip();
      return character_class();
    }
    if (c == '.') {
      s_.skip();
      return one_of(kNewline.inverse());
    }
    if (c == '\\') {
      s_.skip();
      MAKAR_TRY(const CodePoints set, escape_set());
      return one_of(set);
    }
    if (c == '^' || c == '$')
      return s_.error(
          "'{}' is allowed only at the beginning or the end of an alternative of the whole expression", c);
    if (c == '*' || c == '+' || c == '?') return s_.error("nothing for '{}' to repeat", c);
    MAKAR_TRY(const uint32_t point, s_.code_point());
    return one_of({{point, point}});
  }

  Result<ExprPtr> group(int depth) {
    s_.skip();
    if (s_.take("?")) {
      const bool has_name =
          s_.take("P<") || (s_.peek() == '<' && s_.peek(1) != '=' && s_.peek(1) != '!' && s_.take("<"));
      if (has_name) {
        while (!s_.done() && s_.peek() != '>') s_.skip();
        if (!s_.take(">")) return s_.error("the name of a group has no end");
      } else if (!s_.take(":")) {
        return s_.error("look-around and flags ((?{}) are not supported", s_.peek());
      }
    }
    MAKAR_TRY(auto content, alternatives(depth + 1));
    if (!s_.take(")")) return s_.error("a group has no ')'");
    return content;
  }

  // After a backslash: a character class or a single character.
  Result<CodePoints> escape_set() {
    const char c = s_.peek();
    const std::pair<char, const CodePoints*> classes[] = {{'d', &kDigitClass}, {'w', &kWord}, {'s', &kSpace}};
    for (const auto& [letter, set] : classes) {
      if (c == letter) return s_.skip(), *set;
      if (c == letter - 32) return s_.skip(), set->inverse();
    }
    if (c >= '1' && c <= '9') return s_.error("back-references are not supported");
    if (c == 'b' || c == 'B' || c == 'p' || c == 'P') return s_.error("\\{} is not supported", c);
    MAKAR_TRY(const uint32_t point, s_.escape());
    return CodePoints{{point, point}};
  }

  Result<ExprPtr> character_class() {
    const bool inverted = s_.take("^");
    std::vector<CodePoints::Range> ranges;
    for (bool first = true; first || s_.peek() != ']'; first = false) {
      if (s_.done()) return s_.error("a class has no ']'");
      if (!work_.spend(2)) return work_.error("regular expression");
      MAKAR_TRY(const CodePoints low, class_item());
      const bool single = low.ranges().size() == 1 && low.ranges()[0].low == low.ranges()[0].high;
      if (!single || s_.peek() != '-' || s_.peek(1) == ']') {
        ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
        continue;
      }
      s_.skip();
      MAKAR_TRY(const CodePoints high, class_item());
      if (high.ranges().size() != 1 || high.ranges()[0].low != high.ranges()[0].high ||
          high.ranges()[0].low < low.ranges()[0].low)
        return s_.error("a range needs two characters in ascending order");
      ranges.push_back({low.ranges()[0].low, high.ranges()[0].low});
    }
    s_.skip();
    const CodePoints set = CodePoints::of(std::move(ranges));
    return one_of(inverted ? set.inverse() : set);
  }

  Result<CodePoints> class_item() {
    if (s_.take("\\")) {
      if (s_.take("b")) return CodePoints{{'\b', '\b'}};
      if (s_.take("-")) return CodePoints{{'-', '-'}};
      return escape_set();
    }
    MAKAR_TRY(const uint32_t point, s_.code_point());
    return CodePoints{{point, point}};
  }

  Scanner s_;
  const Limits& limits_;
  WorkBudget& work_;
  const RegexOptions& o_;
};

}  // namespace

Result<ExprPtr> read_regex(std::string_view text, const Limits& limits, WorkBudget& work,
                           const RegexOptions& options) {
  if (text.size() > limits.text)
    return error_of(Error::Kind::kLimit, "regular expression", "has {} bytes, the limit is {}", text.size(),
                    limits.text);
  return RegexReader(text, limits, work, options).read();
}

}  // namespace makar::grammar
