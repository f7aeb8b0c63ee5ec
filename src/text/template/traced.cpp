#include "text/template/traced.h"

#include <algorithm>

namespace makar::jinja {

Origin Traced::origin_at(size_t byte) const {
  if (ranges_.empty()) return origin_;
  const auto range = std::upper_bound(ranges_.begin(), ranges_.end(), byte,
                                      [](size_t at, const OriginRange& r) { return at < r.end; });
  return range == ranges_.end() ? kFromTemplate : range->origin;
}

Origin Traced::origins() const {
  if (ranges_.empty()) return text_.empty() ? kFromTemplate : origin_;
  Origin all = 0;
  for (const OriginRange& range : ranges_) all |= range.origin;
  return all;
}

std::vector<Traced::OriginRange> Traced::ranges() const {
  if (!ranges_.empty() || text_.empty()) return ranges_;
  return {{static_cast<uint32_t>(text_.size()), origin_}};
}

void Traced::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  if (text_.empty()) {
    text_ = text, origin_ = origin, ranges_.clear();
    return;
  }
  if (ranges_.empty() && origin != origin_) ranges_.push_back({static_cast<uint32_t>(text_.size()), origin_});
  text_ += text;
  if (ranges_.empty()) return;
  if (ranges_.back().origin == origin)
    ranges_.back().end = static_cast<uint32_t>(text_.size());
  else
    ranges_.push_back({static_cast<uint32_t>(text_.size()), origin});
}

void Traced::append(const Traced& other, size_t begin, size_t end, Origin extra) {
  if (begin >= end) return;
  const std::string_view text = other.text_;
  if (other.ranges_.empty()) return append(text.substr(begin, end - begin), other.origin_ | extra);
  auto range = std::upper_bound(other.ranges_.begin(), other.ranges_.end(), begin,
                                [](size_t at, const OriginRange& r) { return at < r.end; });
  while (begin < end) {
    const size_t stop = std::min<size_t>(end, range->end);
    append(text.substr(begin, stop - begin), range->origin | extra);
    begin = stop, ++range;
  }
}

Traced Traced::slice(size_t begin, size_t end) const {
  Traced out;
  out.append(*this, begin, end);
  return out;
}

bool is_blank(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

ByteRange strip_range(std::string_view text, bool left, bool right, const std::string* chars) {
  const auto drop = [&](size_t at, size_t length) {
    if (chars) return chars->find(text.substr(at, length)) != std::string::npos;
    size_t n;
    return is_blank(code_point(text, at, &n));
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const size_t n = std::min<size_t>(utf8_size(text[begin]), end - begin);
    if (!drop(begin, n)) break;
    begin += n;
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && is_utf8_continuation(text[at])) --at;
    if (!drop(at, end - at)) break;
    end = at;
  }
  return {begin, end};
}

}  // namespace makar::jinja
