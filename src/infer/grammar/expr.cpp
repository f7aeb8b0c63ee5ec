#include "infer/grammar/expr.h"

#include <algorithm>

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

std::string utf8_of(uint32_t c) {
  const auto byte = [](uint32_t x) { return static_cast<char>(x); };
  const auto tail = [&](int shift) { return byte(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {byte(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {byte(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

uint32_t next_code_point(std::string_view text, size_t& at) {
  constexpr uint32_t kBad = 0xFFFFFFFF;
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  const uint32_t lead = byte(at);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || at + length > text.size()) return kBad;
  uint32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return kBad;
    c = c << 6 | (byte(at + i) & 0x3F);
  }
  const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < least[length] || c > kMaxCodePoint || (c >= 0xD800 && c < 0xE000)) return kBad;
  at += length;
  return c;
}

}  // namespace makar::grammar
