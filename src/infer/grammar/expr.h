// The intermediate form of every grammar notation: expressions over characters and rules.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace makar::grammar {

constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// A set of code points as sorted, non-adjacent ranges; never contains surrogates.
class CodePoints {
 public:
  struct Range {
    uint32_t low, high;
    bool operator==(const Range&) const = default;
  };
  CodePoints() = default;
  CodePoints(std::initializer_list<Range> ranges);
  static CodePoints all() { return {{0, kMaxCodePoint}}; }

  // Accepts ranges in any order, overlapping or not, and sorts them once; repeated add() is quadratic.
  static CodePoints of(std::vector<Range> ranges);

  void add(uint32_t low, uint32_t high);
  void add(const CodePoints& other);
  CodePoints inverse() const;
  CodePoints without(const CodePoints& other) const;
  bool contains(uint32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

struct Expr {
  enum class Kind { kLiteral, kCharacter, kSequence, kChoice, kRepeat, kRule };
  Kind kind = Kind::kLiteral;
  std::string literal;         // bytes; empty matches the empty text
  CodePoints characters;       // one of these, as UTF-8
  std::vector<ExprPtr> parts;  // of a sequence, choice or repeat
  int64_t min = 0, max = 0;    // of a repeat; max -1: unbounded
  int rule = 0;
};

ExprPtr literal(std::string_view bytes);
ExprPtr character(CodePoints set);
ExprPtr sequence(std::vector<ExprPtr> parts);
ExprPtr choice(std::vector<ExprPtr> parts);  // an empty choice never matches
ExprPtr repeat(ExprPtr part, int64_t min, int64_t max);
ExprPtr rule_of(int rule);
inline ExprPtr optional(ExprPtr part) { return repeat(std::move(part), 0, 1); }

// Named rules; rule 0 is the start rule.
struct RuleSet {
  std::vector<std::string> names;
  std::vector<ExprPtr> bodies;  // null: referenced, not yet defined

  int add(std::string name, ExprPtr body = nullptr) {
    names.push_back(std::move(name)), bodies.push_back(std::move(body));
    return static_cast<int>(names.size()) - 1;
  }
};

constexpr uint32_t kNoCodePoint = 0xFFFFFFFF;
// Decodes the code point at `at` and advances `at`; kNoCodePoint if the bytes are not UTF-8.
uint32_t next_code_point(std::string_view text, size_t& at);

}  // namespace makar::grammar
