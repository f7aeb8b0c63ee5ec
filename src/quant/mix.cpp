#include "quant/mix.h"

#include <algorithm>
#include <charconv>

#include "base/nearest.h"

namespace makar {
namespace {

struct Row {
  const char* name;
  DType base;
  bool more;  // some layers get more bits
};
constexpr Row kMixes[] = {
    {"f32", DType::kF32, false},    {"f16", DType::kF16, false},     {"bf16", DType::kBF16, false},
    {"q8_0", DType::kQ8_0, false},  {"q4_0", DType::kQ4_0, false},   {"q4_1", DType::kQ4_1, false},
    {"q5_0", DType::kQ5_0, false},  {"q5_1", DType::kQ5_1, false},   {"q4_k_s", DType::kQ4_K, false},
    {"q4_k_m", DType::kQ4_K, true}, {"q5_k_s", DType::kQ5_K, false}, {"q5_k_m", DType::kQ5_K, true},
    {"q6_k", DType::kQ6_K, false},  {"q8_24", DType::kQ8_24, false}};

// Layers with more bits in the _m mixes: the first and the last eighth, and every third in between.
bool more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

int64_t layer_of(const std::string& name) {  // "blk.12.attn_v.weight"
  const size_t at = name.find("blk.");
  int64_t layer = 0;
  if (at != name.npos) std::from_chars(name.data() + at + 4, name.data() + name.size(), layer);
  return layer;
}

}  // namespace

bool may_be_quantized(const GgufTensorSource& t) {
  if (t.shape.rank() < 2 || !t.name.ends_with(".weight")) return false;
  for (const char* excluded : {"ffn_gate_inp", "position_embd", "token_types", "attn_rel_b", "_norm"})
    if (t.name.find(excluded) != std::string::npos) return false;
  return true;
}

DType type_that_fits(DType type, int64_t columns) {
  if (columns % layout_of(type).elements == 0) return type;
  const DType small = type == DType::kQ4_K   ? DType::kQ5_0
                      : type == DType::kQ5_K ? DType::kQ5_1
                                             : DType::kQ8_0;
  return columns % 32 == 0 ? small : DType::kF16;
}

const std::vector<std::string>& mix_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Row& row : kMixes) out.emplace_back(row.name);
    return out;
  }();
  return names;
}

Result<Mix> Mix::find(const std::string& name, const GgufFields& fields,
                      const std::vector<GgufTensorSource>& tensors) {
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "q4_k" || lower == "q5_k") lower += "_m";
  Mix mix;
  for (const Row& row : kMixes)
    if (lower == row.name) mix.name_ = lower, mix.base_ = row.base, mix.more_ = row.more;
  if (mix.name_.empty())
    return error_at("`type`", "unknown type '{}'; expected one of {}{}", name, fmt::join(mix_names(), ", "),
                    did_you_mean(lower, mix_names()));
  const std::string arch = fields.text("general.architecture").value_or("");
  mix.falcon_ = arch == "falcon";
  mix.layers_ = fields.integer(arch + ".block_count").value_or(1);
  mix.experts_ = fields.integer(arch + ".expert_count").value_or(0);
  for (const GgufTensorSource& t : tensors) mix.has_output_ = mix.has_output_ || t.name == "output.weight";
  return mix;
}

DType Mix::preferred_type(const GgufTensorSource& t) const {
  // `makar quantize` stores 2:4 sparse tensors as kQ8_24; the others stay Q8_0.
  if (base_ == DType::kQ8_24) return DType::kQ8_0;
  if (!is_block(base_) || base_ == DType::kQ8_0) return base_;
  const auto is = [&](const char* part) { return t.name.find(part) != t.name.npos; };
  if (t.name == "output.weight" || (!has_output_ && t.name == "token_embd.weight")) return DType::kQ6_K;
  const bool gets_more = more_ && more_bits(layer_of(t.name), layers_);
  if (is("attn_v.weight")) return experts_ == 8 ? DType::kQ8_0 : gets_more ? DType::kQ6_K : base_;
  if (is("attn_k.weight") && experts_ == 8) return DType::kQ8_0;
  if (is("attn_qkv.weight") && more_) return base_ == DType::kQ4_K ? DType::kQ5_K : DType::kQ6_K;
  if (is("attn_output.weight") && experts_ == 8 && base_ == DType::kQ4_K) return DType::kQ5_K;
  if (is("ffn_down")) {
    if (falcon_ && base_ == DType::kQ4_K && more_)
      return layer_of(t.name) < layers_ / 16 ? DType::kQ6_K : gets_more ? DType::kQ5_K : base_;
    return gets_more ? DType::kQ6_K : base_;
  }
  return base_;
}

DType Mix::operator()(const GgufTensorSource& t) const {
  return may_be_quantized(t) ? type_that_fits(preferred_type(t), t.shape[-1]) : DType::kF32;
}

}  // namespace makar
