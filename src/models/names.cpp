#include "models/names.h"

#include <cstring>
#include <numeric>

namespace makar {
namespace {

std::string replaced(std::string text, const std::string& mark, int64_t number) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
    text.replace(at, mark.size(), std::to_string(number));
  return text;
}

bool has(const NameRule& rule, const std::string& mark) {
  return rule.ours[0].find(mark) != std::string::npos;
}

NameRule with(const NameRule& rule, const std::string& mark, int64_t number) {
  NameRule out = rule;
  for (auto& name : out.ours) name = replaced(name, mark, number);
  out.theirs = replaced(out.theirs, mark, number);
  return out;
}

// The rule has an expert index only on our side: one tensor has all experts (fused experts).
NameRule all_experts(const NameRule& rule, const ParameterSet& set) {
  NameRule out = rule;
  out.ours.clear();
  for (int64_t e = 0;; ++e) {
    bool any = false;
    for (const auto& name : rule.ours) {
      const std::string one = replaced(name, "{e}", e);
      if (!set.find(one + ".weight")) continue;
      out.ours.push_back(one);
      any = true;
    }
    if (!any) return out;
  }
}

// Adds the rule's tensors; false when the set has none of its parameters.
bool add(const NameRule& rule, const ParameterSet& set, std::vector<NamedSlice>& out) {
  bool any = false;
  for (const char* suffix : {".weight", ".bias", ""}) {
    NamedSlice slice{rule.theirs + suffix, {},
                     rule.groups,          rule.transpose && std::strcmp(suffix, ".weight") == 0,
                     rule.paired_heads,    rule.offset};
    for (const auto& name : rule.ours)
      if (Parameter* p = set.find(name + suffix)) slice.ours.push_back(p);
    if (slice.ours.empty()) continue;
    any = true;
    check(slice.ours.size() == rule.ours.size(),
          "a fused tensor has parameters that are missing: " + slice.theirs);
    out.push_back(std::move(slice));
  }
  return any;
}

void expand_experts(const NameRule& rule, const ParameterSet& set, std::vector<NamedSlice>& out, bool& any) {
  if (!has(rule, "{e}")) {
    any = add(rule, set, out) || any;
  } else if (rule.theirs.find("{e}") == std::string::npos) {
    NameRule fused = all_experts(rule, set);
    if (fused.ours.empty()) return;
    NamedSlice slice{fused.theirs, {}, 1, false};
    for (const auto& name : fused.ours) slice.ours.push_back(set.find(name + ".weight"));
    out.push_back(std::move(slice));
    any = true;
  } else {
    for (int64_t e = 0; add(with(rule, "{e}", e), set, out); ++e) any = true;
  }
}

}  // namespace

Shape NamedSlice::shape() const {
  Shape s = ours[0]->shape;
  for (size_t i = 1; i < ours.size(); ++i) s[0] += ours[i]->shape[0];
  if (transpose) std::swap(s[0], s[1]);
  return s;
}

std::vector<NamedSlice> expand(const std::vector<NameRule>& rules, const ParameterSet& set) {
  std::vector<NamedSlice> out;
  for (const NameRule& rule : rules) {
    if (!has(rule, "{}")) {
      bool any = false;
      expand_experts(rule, set, out, any);
      continue;
    }
    for (int64_t layer = 0;; ++layer) {
      bool any = false;
      expand_experts(with(rule, "{}", layer), set, out, any);
      if (!any) break;
    }
  }
  return out;
}

namespace {

template <class T>
Tensor transposed(const Tensor& x) {
  const int64_t rows = x.dim(0), cols = x.dim(1);
  Tensor y = Tensor::empty({cols, rows}, x.dtype());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) y.data<T>()[j * rows + i] = x.data<T>()[i * cols + j];
  return y;
}

Tensor transposed(const Tensor& x) {
  return size_of(x.dtype()) == 4 ? transposed<uint32_t>(x) : transposed<uint16_t>(x);
}

// Calls body(part, bytes of part at offset, bytes of whole at offset, size) for every contiguous range of
// bytes.
template <class F>
void each_run(const NamedSlice& slice, DType type, F&& body) {
  size_t at = 0;
  for (int64_t g = 0; g < slice.groups; ++g)
    for (size_t p = 0; p < slice.ours.size(); ++p) {
      const size_t size = bytes_of(type, slice.ours[p]->shape.count() / slice.groups);
      body(p, static_cast<size_t>(g) * size, at, size);
      at += size;
    }
}

// Reorders the rows of each head from pairs to halves (to_file false) or back; rows of blocks move as a
// whole.
Tensor reorder_rotary_rows(const Tensor& x, int64_t heads, bool to_file) {
  const int64_t rows = x.dim(0), each = rows / heads, half = each / 2;
  check(rows % heads == 0 && each % 2 == 0, "a head must have an even number of rows");
  const size_t row = bytes_of(x.dtype(), x.count() / rows);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % each, paired = r - in_head + in_head % half * 2 + in_head / half;
    const auto ours = static_cast<size_t>(r) * row, theirs = static_cast<size_t>(paired) * row;
    std::memcpy(y.raw() + (to_file ? theirs : ours), x.raw() + (to_file ? ours : theirs), row);
  }
  return y;
}

Tensor plus(const Tensor& x, float offset) {
  Tensor y = x.to(DType::kF32).clone();
  for (float& v : y.span()) v += offset;
  return y;
}

std::vector<Tensor> parts_of(const Tensor& whole, const NamedSlice& slice) {
  if (slice.ours.size() == 1) return {whole.reshape(slice.ours[0]->shape)};
  std::vector<Tensor> parts;
  for (const Parameter* p : slice.ours) parts.push_back(Tensor::empty(p->shape, whole.dtype()));
  each_run(slice, whole.dtype(), [&](size_t p, size_t to, size_t from, size_t size) {
    std::memcpy(parts[p].raw() + to, whole.raw() + from, size);
  });
  return parts;
}

}  // namespace

std::vector<Tensor> cut(const Tensor& theirs, const NamedSlice& slice) {
  std::vector<Tensor> parts = parts_of(slice.transpose ? transposed(theirs) : theirs, slice);
  for (Tensor& part : parts) {
    if (slice.paired_heads > 0) part = reorder_rotary_rows(part, slice.paired_heads, false);
    if (slice.offset != 0) part = plus(part, -slice.offset);
  }
  return parts;
}

Tensor join(const std::vector<Tensor>& parts, const NamedSlice& slice) {
  std::vector<Tensor> ours;
  for (const Tensor& part : parts) ours.push_back(part.host());
  Tensor whole = ours[0];
  if (ours.size() > 1) {
    Shape shape = slice.shape();
    if (slice.transpose) std::swap(shape[0], shape[1]);
    whole = Tensor::empty(shape, ours[0].dtype());
    each_run(slice, whole.dtype(), [&](size_t p, size_t from, size_t to, size_t size) {
      std::memcpy(whole.raw() + to, ours[p].raw() + from, size);
    });
  }
  if (slice.paired_heads > 0) whole = reorder_rotary_rows(whole, slice.paired_heads, true);
  if (slice.offset != 0) whole = plus(whole, slice.offset);
  return slice.transpose ? transposed(whole) : whole;
}

}  // namespace makar
