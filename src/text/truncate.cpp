#include "text/truncate.h"

#include <algorithm>

namespace makar {
namespace {

// The tokens [begin, end) of an encoding, without its overflow.
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

Status truncate_sequence(Encoding& encoding, size_t length, const Truncation& t, bool overflow) {
  const size_t size = encoding.size();
  if (length >= size) return Done{};
  if (!overflow) {
    encoding = truncated(encoding, length, t);
    return Done{};
  }
  if (length == 0) {
    Encoding empty;
    empty.overflow.push_back(std::move(encoding));
    encoding = std::move(empty);
    return Done{};
  }
  if (t.stride >= length)
    return error_at("truncation",
                    "the stride {} must be smaller than the {} tokens that remain after special tokens",
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

Encoding truncated(const Encoding& encoding, size_t length, const Truncation& t) {
  const size_t size = encoding.size(), count = std::min(length, size);
  return t.left ? window(encoding, size - count, size) : window(encoding, 0, count);
}

Result<std::vector<size_t>> truncated_lengths(const std::vector<size_t>& sizes, const Truncation& t) {
  size_t total = 0;
  for (const size_t size : sizes) total += size;
  if (total <= t.max_length) return sizes;
  if (t.max_length == 0) return std::vector<size_t>(sizes.size(), 0);
  if (t.strategy == Truncation::Strategy::kLongestFirst) {
    if (sizes.size() == 1) return std::vector<size_t>{t.max_length};
    size_t small = sizes[0], large = sizes[1];
    const bool swapped = small > large;
    if (swapped) std::swap(small, large);
    large = small > t.max_length ? small : std::max(small, t.max_length - small);
    if (small + large > t.max_length) {
      small = t.max_length / 2;
      large = small + t.max_length % 2;
    }
    if (swapped) std::swap(small, large);
    return std::vector<size_t>{small, large};
  }
  const size_t remove = total - t.max_length,
               sequence = t.strategy == Truncation::Strategy::kOnlyFirst ? 0 : 1;
  if (sequence >= sizes.size())
    return error_at("truncation", "the strategy truncates only the second sequence, but there is only one");
  if (sizes[sequence] <= remove)
    return error_at("truncation", "the sequence has {} tokens, too few to remove {} of them", sizes[sequence],
                    remove);
  std::vector<size_t> lengths = sizes;
  lengths[sequence] -= remove;
  return lengths;
}

Status truncate(std::vector<Encoding>& parts, const Truncation& t, bool overflow) {
  std::vector<size_t> sizes;
  for (const Encoding& part : parts) sizes.push_back(part.size());
  MAKAR_TRY(const std::vector<size_t> lengths, truncated_lengths(sizes, t));
  for (size_t i = 0; i < parts.size(); ++i)
    MAKAR_RETURN_IF_ERROR(truncate_sequence(parts[i], lengths[i], t, overflow));
  return Done{};
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
