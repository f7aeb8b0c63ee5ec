#include "infer/grammar/expr.h"

#include <algorithm>

#include "base/utf8.h"

namespace makar::grammar {

CodePoints::CodePoints(std::initializer_list<Range> ranges) {
  for (const Range& r : ranges) add(r.low, r.high);
}

CodePoints CodePoints::of(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  CodePoints out;
  for (const Range& r : ranges) out.add(r.low, r.high);  // sorted, so each is appended at the end
  return out;
}

void CodePoints::add(uint32_t low, uint32_t high) {
  high = std::min(high, kMaxCodePoint);
  if (low > high) return;
  if (low < 0xE000 && high > 0xD7FF) {  // skip the surrogates
    if (low < 0xD800) add(low, 0xD7FF);
    if (high > 0xDFFF) add(0xE000, high);
    return;
  }
  auto at = std::lower_bound(ranges_.begin(), ranges_.end(), low,
                             [](const Range& r, uint32_t l) { return r.high + 1 < l; });
  while (at != ranges_.end() && at->low <= high + 1) {
    low = std::min(low, at->low), high = std::max(high, at->high);
    at = ranges_.erase(at);
  }
  ranges_.insert(at, {low, high});
}

void CodePoints::add(const CodePoints& other) {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  *this = of(std::move(both));
}

CodePoints CodePoints::inverse() const {
  CodePoints out;
  uint32_t from = 0;
  for (const Range& r : ranges_) {
    if (r.low > from) out.add(from, r.low - 1);
    from = r.high + 1;
  }
  if (from <= kMaxCodePoint) out.add(from, kMaxCodePoint);
  return out;
}

CodePoints CodePoints::without(const CodePoints& other) const {
  CodePoints outside = inverse();
  outside.add(other);
  return outside.inverse();
}

bool CodePoints::contains(uint32_t c) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), c,
                                   [](const Range& r, uint32_t point) { return r.high < point; });
  return at != ranges_.end() && at->low <= c;
}

namespace {

ExprPtr make(Expr e) { return std::make_shared<const Expr>(std::move(e)); }

}  // namespace

ExprPtr literal(std::string_view bytes) {
  Expr e;
  e.literal = bytes;
  return make(std::move(e));
}

ExprPtr character(CodePoints set) {
  Expr e;
  e.kind = Expr::Kind::kCharacter, e.characters = std::move(set);
  return make(std::move(e));
}

ExprPtr sequence(std::vector<ExprPtr> parts) {
  if (parts.size() == 1) return parts[0];
  Expr e;
  e.kind = Expr::Kind::kSequence, e.parts = std::move(parts);
  return make(std::move(e));
}

ExprPtr choice(std::vector<ExprPtr> parts) {
  if (parts.size() == 1) return parts[0];
  Expr e;
  e.kind = Expr::Kind::kChoice, e.parts = std::move(parts);
  return make(std::move(e));
}

ExprPtr repeat(ExprPtr part, int64_t min, int64_t max) {
  Expr e;
  e.kind = Expr::Kind::kRepeat, e.parts = {std::move(part)}, e.min = min, e.max = max;
  return make(std::move(e));
}

ExprPtr rule_of(int rule) {
  Expr e;
  e.kind = Expr::Kind::kRule, e.rule = rule;
  return make(std::move(e));
}

uint32_t next_code_point(std::string_view text, size_t& at) {
  if (at >= text.size()) return kNoCodePoint;
  const CodePoint next = decode_utf8(text, at);
  if (!next.ok) return kNoCodePoint;
  at += next.size;
  return next.code;
}

}  // namespace makar::grammar
