#include "models/names.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "models/dequantize.h"

namespace makar {
namespace {

std::string replaced(std::string text, const std::string& placeholder, int64_t number) {
  for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder))
    text.replace(at, placeholder.size(), std::to_string(number));
  return text;
}

bool has(const NameRule& rule, const std::string& placeholder) {
  return rule.parameter_names[0].find(placeholder) != std::string::npos;
}

NameRule with_number(const NameRule& rule, const std::string& placeholder, int64_t number) {
  NameRule out = rule;
  for (auto& name : out.parameter_names) name = replaced(name, placeholder, number);
  out.tensor_name = replaced(out.tensor_name, placeholder, number);
  return out;
}

constexpr const char* kSuffixes[] = {".weight", ".bias", ""};

NamedSlice slice_of(const NameRule& rule, const char* suffix) {
  return {rule.tensor_name + suffix,
          {},
          rule.groups,
          rule.transpose,
          rule.paired_heads,
          rule.offset,
          rule.skipped_rows,
          rule.split_heads,
          rule.stacked_heads,
          rule.file_rows,
          rule.negative_exp};
}

// Adds the rule's tensors; false when the set has none of its parameters.
bool add(const NameRule& rule, const ParameterSet& set, std::vector<NamedSlice>& out) {
  bool any = false;
  for (const char* suffix : kSuffixes) {
    NamedSlice slice = slice_of(rule, suffix);
    for (const auto& name : rule.parameter_names)
      if (Parameter* p = set.find(name + suffix)) slice.parameters.push_back(p);
    if (slice.parameters.empty()) continue;
    any = true;
    check(slice.parameters.size() == rule.parameter_names.size(),
          "parameters of a fused tensor are missing: " + slice.tensor_name);
    slice.transpose = slice.transpose && slice.parameters[0]->shape.rank() == 2;
    if (slice.tensor_name.ends_with(".bias")) slice.offset = 0;
    out.push_back(std::move(slice));
  }
  return any;
}

// One tensor of all experts.
void add_experts(const NameRule& rule, const ParameterSet& set, std::vector<NamedSlice>& out) {
  for (const char* suffix : kSuffixes) {
    NamedSlice slice = slice_of(rule, suffix);
    const auto find = [&](const std::string& name) {
      return set.find(replaced(name, "{e}", slice.experts) + suffix);
    };
    for (; find(rule.parameter_names[0]); ++slice.experts)
      for (const auto& name : rule.parameter_names) slice.parameters.push_back(find(name));
    if (slice.experts == 0) continue;
    slice.transpose = slice.transpose && slice.parameters[0]->shape.rank() == 2;
    out.push_back(std::move(slice));
  }
}

void add_layer(const NameRule& rule, const ParameterSet& set, std::vector<NamedSlice>& out) {
  if (!has(rule, "{e}")) {
    add(rule, set, out);
  } else if (rule.tensor_name.find("{e}") == std::string::npos) {
    add_experts(rule, set, out);
  } else {
    for (int64_t e = 0; add(with_number(rule, "{e}", e), set, out);) ++e;
  }
}

// One more than the largest layer in the parameters' names.
int64_t layer_count(const ParameterSet& set) {
  constexpr std::string_view kPrefix = ".layers.";
  int64_t count = 0;
  for (const auto& p : set.all())
    if (const size_t at = p->name.find(kPrefix); at != std::string::npos)
      count = std::max<int64_t>(count, std::atoll(p->name.c_str() + at + kPrefix.size()) + 1);
  return count;
}

// The tensor of one expert.
NamedSlice one_expert(const NamedSlice& slice, int64_t e) {
  NamedSlice one = slice;
  const auto per_expert = static_cast<std::ptrdiff_t>(slice.parameters.size()) / slice.experts;
  one.parameters.assign(slice.parameters.begin() + e * per_expert,
                        slice.parameters.begin() + (e + 1) * per_expert);
  one.experts = 0;
  return one;
}

}  // namespace

std::vector<NameRule> with_names(std::vector<NameRule> rules, const std::vector<NameRule>& changes) {
  std::erase_if(rules, [&](const NameRule& rule) {
    return std::any_of(changes.begin(), changes.end(), [&](const NameRule& change) {
      return std::find(change.parameter_names.begin(), change.parameter_names.end(),
                       rule.parameter_names[0]) != change.parameter_names.end();
    });
  });
  rules.insert(rules.end(), changes.begin(), changes.end());
  return rules;
}

Shape NamedSlice::shape() const {
  if (experts > 0) {
    const Shape one = one_expert(*this, 0).shape();
    return one.rank() == 1 ? Shape{experts, one[0]} : Shape{experts, one[0], one[1]};
  }
  Shape s = parameters[0]->shape;
  for (size_t i = 1; i < parameters.size(); ++i) s[0] += parameters[i]->shape[0];
  if (skipped_rows > 0) s[0] -= skipped_rows;
  if (stacked_heads > 0 && s.rank() == 2) {
    const int64_t head_rows = s[0] / stacked_heads;
    return transpose ? Shape{stacked_heads, s[1], head_rows} : Shape{stacked_heads, head_rows, s[1]};
  }
  if (file_rows > 0) return {file_rows, s.count() / file_rows};
  if (transpose) std::swap(s[0], s[1]);
  if (split_heads > 0 && s.rank() == 2) return {s[0], split_heads, s[1] / split_heads};
  return s;
}

std::vector<NamedSlice> expand(const std::vector<NameRule>& rules, const ParameterSet& set) {
  const int64_t layers = layer_count(set);
  std::vector<NamedSlice> out;
  for (const NameRule& rule : rules) {
    if (!has(rule, "{}")) {
      add_layer(rule, set, out);
      continue;
    }
    for (int64_t layer = 0; layer < layers; ++layer) add_layer(with_number(rule, "{}", layer), set, out);
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

// Calls body(index of the part, offset in the part, offset in the tensor, size), in bytes, for every
// contiguous range.
template <class F>
void each_range(const NamedSlice& slice, DType type, F&& body) {
  size_t at = 0;
  for (int64_t g = 0; g < slice.groups; ++g)
    for (size_t p = 0; p < slice.parameters.size(); ++p) {
      const size_t size = bytes_of(type, slice.parameters[p]->shape.count() / slice.groups);
      body(p, static_cast<size_t>(g) * size, at, size);
      at += size;
    }
}

// A stack of matrices [n, a, b] as [n, b, a].
Tensor each_transposed(const Tensor& x) {
  Tensor y = Tensor::empty({x.dim(0), x.dim(2), x.dim(1)}, x.dtype());
  for (int64_t i = 0; i < x.dim(0); ++i) {
    const Tensor one = transposed(x.slice(i, i + 1).reshape({x.dim(1), x.dim(2)}));
    std::memcpy(y.raw() + static_cast<size_t>(i) * one.bytes(), one.raw(), one.bytes());
  }
  return y;
}

// -exp of every value, or its inverse.
Tensor negative_exp(const Tensor& x, bool inverse) {
  Tensor y = x.to(DType::kF32).clone();
  for (float& v : y.span())
    v = static_cast<float>(inverse ? std::log(-static_cast<double>(v)) : -std::exp(static_cast<double>(v)));
  return y;
}

// Reorders the rows of each head from pairs to halves (to_file false) or back. Rows of any dtype are copied
// unchanged.
Tensor reorder_rotary_rows(const Tensor& x, int64_t heads, bool to_file) {
  const int64_t rows = x.dim(0), head_rows = rows / heads, half = head_rows / 2;
  check(rows % heads == 0 && head_rows % 2 == 0, "a head must have an even number of rows");
  const size_t row = bytes_of(x.dtype(), x.count() / rows);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % head_rows, file_row = r - in_head + in_head % half * 2 + in_head / half;
    const auto offset = static_cast<size_t>(r) * row, file_offset = static_cast<size_t>(file_row) * row;
    std::memcpy(y.raw() + (to_file ? file_offset : offset), x.raw() + (to_file ? offset : file_offset), row);
  }
  return y;
}

Tensor plus(const Tensor& x, float offset) {
  Tensor y = x.to(DType::kF32).clone();
  for (float& v : y.span()) v += offset;
  return y;
}

std::vector<Tensor> parts_of(const Tensor& file_tensor, const NamedSlice& slice) {
  if (slice.parameters.size() == 1) return {file_tensor.reshape(slice.parameters[0]->shape)};
  std::vector<Tensor> parts;
  for (const Parameter* p : slice.parameters) parts.push_back(Tensor::empty(p->shape, file_tensor.dtype()));
  each_range(slice, file_tensor.dtype(), [&](size_t p, size_t to, size_t from, size_t size) {
    std::memcpy(parts[p].raw() + to, file_tensor.raw() + from, size);
  });
  return parts;
}

}  // namespace

std::vector<Tensor> split_tensor(const Tensor& stored, const NamedSlice& slice) {
  if (slice.stacked_heads > 0) {  // blocks cannot be transposed
    const Tensor matrices = slice.transpose && is_block(stored.dtype()) ? dequantized(stored) : stored;
    return {(slice.transpose ? each_transposed(matrices) : matrices).reshape(slice.parameters[0]->shape)};
  }
  if (slice.negative_exp) return {negative_exp(stored, true).reshape(slice.parameters[0]->shape)};
  const bool split = slice.split_heads > 0 && stored.rank() == 3;
  const Tensor file_tensor = split ? stored.reshape({stored.dim(0), stored.dim(1) * stored.dim(2)}) : stored;
  if (slice.experts > 0) {
    std::vector<Tensor> expert_parts;
    for (int64_t e = 0; e < slice.experts; ++e) {
      const NamedSlice one = one_expert(slice, e);
      for (const Tensor& part : split_tensor(file_tensor.slice(e, e + 1).reshape(one.shape()).clone(), one))
        expert_parts.push_back(part);
    }
    return expert_parts;
  }
  std::vector<Tensor> parts = parts_of(slice.transpose ? transposed(file_tensor) : file_tensor, slice);
  for (Tensor& part : parts) {
    if (slice.paired_heads > 0) part = reorder_rotary_rows(part, slice.paired_heads, false);
    if (slice.offset != 0) part = plus(part, -slice.offset);
  }
  return parts;
}

Tensor join_tensors(const std::vector<Tensor>& parts, const NamedSlice& slice) {
  if (slice.experts > 0) {
    const auto per_expert = static_cast<std::ptrdiff_t>(parts.size()) / slice.experts;
    Tensor stacked;
    for (int64_t e = 0; e < slice.experts; ++e) {
      const Tensor one = join_tensors({parts.begin() + e * per_expert, parts.begin() + (e + 1) * per_expert},
                                      one_expert(slice, e));
      if (!stacked.defined()) stacked = Tensor::empty(slice.shape(), one.dtype());
      std::memcpy(stacked.raw() + static_cast<size_t>(e) * one.bytes(), one.raw(), one.bytes());
    }
    return stacked;
  }
  std::vector<Tensor> host_parts;
  for (const Tensor& part : parts) host_parts.push_back(part.host());
  Tensor file_tensor = host_parts[0];
  if (host_parts.size() > 1) {
    Shape shape = slice.shape();
    if (slice.transpose) std::swap(shape[0], shape[1]);
    file_tensor = Tensor::empty(shape, host_parts[0].dtype());
    each_range(slice, file_tensor.dtype(), [&](size_t p, size_t from, size_t to, size_t size) {
      std::memcpy(file_tensor.raw() + to, host_parts[p].raw() + from, size);
    });
  }
  if (slice.stacked_heads > 0) {
    const Shape s = file_tensor.shape();
    file_tensor = file_tensor.reshape({slice.stacked_heads, s[0] / slice.stacked_heads, s[1]});
    return slice.transpose ? each_transposed(file_tensor) : file_tensor;
  }
  if (slice.negative_exp) file_tensor = negative_exp(file_tensor, false);
  if (slice.file_rows > 0) return file_tensor.reshape(slice.shape());
  if (slice.skipped_rows > 0) file_tensor = file_tensor.slice(slice.skipped_rows, file_tensor.dim(0));
  if (slice.paired_heads > 0) file_tensor = reorder_rotary_rows(file_tensor, slice.paired_heads, true);
  if (slice.offset != 0) file_tensor = plus(file_tensor, slice.offset);
  if (slice.transpose) file_tensor = transposed(file_tensor);
  return slice.split_heads > 0 ? file_tensor.reshape(slice.shape()) : file_tensor;
}

}  // namespace makar
