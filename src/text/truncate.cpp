#include "text/truncate.h"

#include <algorithm>

namespace makar {
namespace {

Encoding window(const Encoding& e, size_t begin, size_t end) {
  Encoding out;
  const auto copy = [&](auto& to, const auto& from) {
    if (from.size() == e.ids.size()) to.assign(from.begin() + begin, from.begin() + end);
  };
  copy(out.ids, e.ids);
  copy(out.offsets, e.offsets);
  copy(out.type_ids, e.type_ids);
  copy(out.sequence_ids, e.sequence_ids);
  copy(out.special_mask, e.special_mask);
  copy(out.attention_mask, e.attention_mask);
  return out;
}

Status cut(Encoding& encoding, size_t length, const Truncation& t) {
  const size_t size = encoding.size();
  if (length >= size) return Done{};
  if (length == 0) {
    Encoding empty;
    empty.overflow.push_back(std::move(encoding));
    encoding = std::move(empty);
    return Done{};
  }
  if (t.stride >= length)
    return error_at("truncation", "the stride {} must be smaller than the {} tokens left after special ones",
                    t.stride, length);
  std::vector<Encoding> windows;
  const size_t step = length - t.stride;
  for (size_t i = 0; i < size; i += step) {
    const size_t begin = t.left ? (size - i > length ? size - i - length : 0) : i;
    const size_t end = t.left ? size - i : std::min(i + length, size);
    windows.push_back(window(encoding, begin, end));
    if (t.left ? begin == 0 : end == size) break;
  }
  encoding = std::move(windows[0]);
  for (size_t i = 1; i < windows.size(); ++i) encoding.overflow.push_back(std::move(windows[i]));
  return Done{};
}

}  // namespace

Status truncate(std::vector<Encoding>& parts, const Truncation& t) {
  size_t total = 0;
  for (const Encoding& part : parts) total += part.size();
  if (t.max_length == 0) {
    for (Encoding& part : parts) MAKAR_CHECK_OK(cut(part, 0, t));
    return Done{};
  }
  if (total <= t.max_length) return Done{};
  const size_t remove = total - t.max_length;
  if (t.strategy == Truncation::Strategy::kLongestFirst) {
    if (parts.size() == 1) return cut(parts[0], t.max_length, t);
    size_t small = parts[0].size(), large = parts[1].size();
    const bool swapped = small > large;
    if (swapped) std::swap(small, large);
    large = small > t.max_length ? small : std::max(small, t.max_length - small);
    if (small + large > t.max_length) {
      small = t.max_length / 2;
      large = small + t.max_length % 2;
    }
    if (swapped) std::swap(small, large);
    MAKAR_CHECK_OK(cut(parts[0], small, t));
    return cut(parts[1], large, t);
  }
  const size_t which = t.strategy == Truncation::Strategy::kOnlyFirst ? 0 : 1;
  if (which >= parts.size())
    return error_at("truncation", "only the second sequence may be cut, but there is one only");
  if (parts[which].size() <= remove)
    return error_at("truncation", "the sequence has {} tokens, too few to cut {} of them",
                    parts[which].size(), remove);
  return cut(parts[which], parts[which].size() - remove, t);
}

void pad(Encoding& encoding, const Padding& p, size_t length) {
  if (p.multiple_of > 1) length = (length + p.multiple_of - 1) / p.multiple_of * p.multiple_of;
  const size_t size = encoding.size();
  if (length <= size) return;
  const bool offsets = encoding.offsets.size() == size;
  const auto fill = [&](auto& list, auto value) {
    list.insert(p.left ? list.begin() : list.end(), length - size, value);
  };
  fill(encoding.ids, p.id);
  if (offsets) fill(encoding.offsets, Span{});
  fill(encoding.type_ids, p.type_id);
  fill(encoding.sequence_ids, uint8_t{0});
  fill(encoding.special_mask, uint8_t{1});
  fill(encoding.attention_mask, uint8_t{0});
  for (Encoding& window : encoding.overflow) pad(window, p, length);
}

}  // namespace makar
