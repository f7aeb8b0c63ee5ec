#include "infer/grammar/gbnf.h"

#include <unordered_map>

#include "base/nearest.h"
#include "base/utf8.h"
#include "infer/grammar/scanner.h"

namespace makar::grammar {
namespace {

constexpr int kMaxRepetitionOperators = 8;  // operators after one term, as in a*+?

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class Reader {
 public:
  Reader(std::string_view text, const Limits& limits, WorkBudget& work)
      : s_(text, "grammar"), limits_(limits), work_(work) {
    rule_named("root");
  }

  Result<RuleSet> read() {
    for (space(true); !s_.done(); space(true)) MAKAR_RETURN_IF_ERROR(rule());
    if (!rules_.bodies[0]) return error_at("grammar", "has no rule 'root', which matches the whole text");
    for (size_t i = 0; i < rules_.names.size(); ++i)
      if (!rules_.bodies[i]) {
        std::vector<std::string> known;
        for (size_t j = 0; j < rules_.names.size(); ++j)
          if (rules_.bodies[j]) known.push_back(rules_.names[j]);
        return error_at("grammar", "rule {} is used but not defined{}", quote(rules_.names[i]),
                        did_you_mean(rules_.names[i], known));
      }
    return std::move(rules_);
  }

 private:
  // Skips blanks and comments; with `lines`, line ends too.
  void space(bool lines) {
    while (!s_.done()) {
      const char c = s_.peek();
      if (c == '#') {
        while (!s_.done() && s_.peek() != '\n' && s_.peek() != '\r') s_.skip();
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        s_.skip();
      } else {
        return;
      }
    }
  }

  int rule_named(std::string_view name) {
    const auto [found, added] = index_.try_emplace(std::string(name), 0);
    if (added) found->second = rules_.add(std::string(name));
    return found->second;
  }

  std::string_view name() {
    const size_t from = s_.at();
    while (in_name(s_.peek())) s_.skip();
    return s_.slice(from);
  }

  Status rule() {
    const std::string_view rule_name = name();
    if (rule_name.empty()) return s_.error("expected a rule name, found '{}'", s_.peek());
    space(false);
    if (!s_.take("::=")) return s_.error("expected '::=' after {}", quote(rule_name));
    space(true);
    const int id = rule_named(rule_name);
    if (rules_.bodies[static_cast<size_t>(id)]) return s_.error("rule {} is defined twice", quote(rule_name));
    MAKAR_TRY(rules_.bodies[static_cast<size_t>(id)], alternatives(0));
    if (rules_.names.size() > limits_.nodes)
      return error_of(Error::Kind::kLimit, "grammar", "has more than {} rules", limits_.nodes);
    if (!s_.done() && s_.peek() != '\n' && s_.peek() != '\r')
      return s_.error("expected the end of the line, found '{}'", s_.peek());
    return Done{};
  }

  Result<ExprPtr> alternatives(int depth) {
    if (depth > limits_.nesting)
      return error_of(Error::Kind::kLimit, "grammar", "groups are nested deeper than {}", limits_.nesting);
    std::vector<ExprPtr> branches;
    for (;;) {
      MAKAR_TRY(auto alternative, terms(depth));
      branches.push_back(std::move(alternative));
      if (!s_.take("|")) return choice(std::move(branches));
      space(true);
    }
  }

  Result<ExprPtr> terms(int depth) {
    std::vector<ExprPtr> parts;
    for (;; space(depth > 0)) {
      if (!work_.spend(2)) return work_.error("grammar");
      const char c = s_.peek();
      ExprPtr part;
      if (s_.done() || c == '|' || c == ')' || c == '\n' || c == '\r') break;
      if (c == '"') {
        MAKAR_TRY(part, string_literal());
      } else if (c == '[') {
        MAKAR_TRY(part, character_class());
      } else if (c == '.') {
        s_.skip();
        part = character(CodePoints::all());
      } else if (c == '(') {
        s_.skip();
        space(true);
        MAKAR_TRY(part, alternatives(depth + 1));
        if (!s_.take(")")) return s_.error("a group has no closing ')'");
      } else if (in_name(c)) {
        part = rule_of(rule_named(name()));
      } else {
        return s_.error("unexpected '{}'; a rule consists of \"text\", [classes], rule names and groups", c);
      }
      space(depth > 0);
      MAKAR_TRY(part, with_repetitions(std::move(part), depth));
      parts.push_back(std::move(part));
    }
    return sequence(std::move(parts));
  }

  Result<ExprPtr> with_repetitions(ExprPtr part, int depth) {
    for (int operators = 0;; ++operators) {
      if (operators > kMaxRepetitionOperators)
        return s_.error("more than {} repetition operators in a row", kMaxRepetitionOperators);
      if (s_.take("*"))
        part = repeat(std::move(part), 0, -1);
      else if (s_.take("+"))
        part = repeat(std::move(part), 1, -1);
      else if (s_.take("?"))
        part = repeat(std::move(part), 0, 1);
      else if (s_.take("{")) {
        MAKAR_TRY(const Scanner::Count c, s_.count());
        part = repeat(std::move(part), c.min, c.max);
      } else {
        return part;
      }
      space(depth > 0);
    }
  }

  Result<ExprPtr> string_literal() {
    s_.skip();
    std::string bytes;
    while (s_.peek() != '"') {
      if (s_.done()) return s_.error("a literal has no closing quote");
      MAKAR_TRY(const uint32_t point, character_code());
      append_utf8(bytes, point);
    }
    s_.skip();
    return literal(bytes);
  }

  Result<ExprPtr> character_class() {
    s_.skip();
    const bool inverted = s_.take("^");
    std::vector<CodePoints::Range> ranges;
    while (s_.peek() != ']') {
      if (s_.done()) return s_.error("a class has no closing ']'");
      if (!work_.spend()) return work_.error("grammar");
      MAKAR_TRY(const uint32_t low, character_code());
      uint32_t high = low;
      if (s_.peek() == '-' && s_.peek(1) != ']') {
        s_.skip();
        MAKAR_TRY(high, character_code());
        if (high < low) return s_.error("a range needs two characters in ascending order");
      }
      ranges.push_back({low, high});
    }
    s_.skip();
    const CodePoints set = CodePoints::of(std::move(ranges));
    return character(inverted ? set.inverse() : set);
  }

  Result<uint32_t> character_code() {
    if (s_.take("\\")) return s_.escape();
    return s_.code_point();
  }

  Scanner s_;
  const Limits& limits_;
  WorkBudget& work_;
  RuleSet rules_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace

Result<RuleSet> read_gbnf(std::string_view text, const Limits& limits, WorkBudget& work) {
  if (text.size() > limits.text)
    return error_of(Error::Kind::kLimit, "grammar", "has {} bytes, the limit is {}", text.size(),
                    limits.text);
  return Reader(text, limits, work).read();
}

}  // namespace makar::grammar
