#include "formats/prequantized.h"

#include <algorithm>
#include <set>

#include "base/quote.h"

namespace makar {
namespace {

using Entry = TensorFile::Entry;

// Finds and checks the parts of prequantized matrices.
class Finder {
 public:
  Finder(const PrequantizedScheme& scheme, const FindEntry& entry, const std::string& place)
      : scheme_(scheme), entry_(entry), place_(place) {}

  Status visit(const std::string& name, PrequantizedMatrices& out) {
    switch (scheme_.method) {
      case PrequantizedMethod::kGptq:
      case PrequantizedMethod::kAwq:
        return integers(name, out);
      case PrequantizedMethod::kFp8:
        return fp8(name, out);
      case PrequantizedMethod::kMxfp4:
        return mxfp4(name, out);
      case PrequantizedMethod::kBitsAndBytes:
        return bits_and_bytes(name, out);
    }
    return Done{};
  }

 private:
  Error tensor_error(const std::string& name, const std::string& what) const {
    return error_at(place_, "tensor {} {}; the weights do not match quantization_config", quote(name), what);
  }
  bool has(const std::string& name) const { return entry_(name) != nullptr; }
  Status require(const std::string& name, DType type, const Shape& shape) const {
    const Entry* e = entry_(name);
    if (!e)
      return tensor_error(name, fmt::format("is missing: expected {} {}", makar::name(type), shape.text()));
    const bool float_like = is_float(type) && is_float(e->dtype) && e->dtype != DType::kF64;
    if ((e->dtype != type && !float_like) || !(e->shape == shape))
      return tensor_error(name, fmt::format("is {} {}, expected {} {}", makar::name(e->dtype),
                                            e->shape.text(), makar::name(type), shape.text()));
    return Done{};
  }
  // Whether the name ends with `suffix`; `base` is then the name without it.
  static bool split_suffix(const std::string& name, const std::string& suffix, std::string& base) {
    if (!name.ends_with(suffix)) return false;
    base = name.substr(0, name.size() - suffix.size());
    return true;
  }

  Status integers(const std::string& name, PrequantizedMatrices& out) {
    std::string base;
    if (!split_suffix(name, ".qweight", base)) return Done{};
    const Entry& e = *entry_(name);
    if (e.dtype != DType::kI32 || e.shape.rank() != 2 || e.shape.count() == 0 ||
        e.shape.count() > (int64_t{1} << 40))
      return tensor_error(
          name, fmt::format("is {} {}, expected a matrix of i32", makar::name(e.dtype), e.shape.text()));
    const bool gptq = scheme_.method == PrequantizedMethod::kGptq;
    const int64_t per_word = 32 / scheme_.bits;
    const int64_t in = gptq ? e.shape[0] * per_word : e.shape[0],
                  outs = gptq ? e.shape[1] : e.shape[1] * per_word;
    const int64_t group = scheme_.group > 0 ? std::min(scheme_.group, in) : in;
    const int64_t groups = (in + group - 1) / group;
    if (outs % per_word != 0)
      return tensor_error(
          name,
          fmt::format("has {} outputs, expected a multiple of the {} zero points per word", outs, per_word));
    MAKAR_RETURN_IF_ERROR(require(base + ".scales", DType::kF16, {groups, outs}));
    MAKAR_RETURN_IF_ERROR(require(base + ".qzeros", DType::kI32, {groups, outs / per_word}));
    PrequantizedMatrix m{{{"qweight", name}, {"scales", base + ".scales"}, {"qzeros", base + ".qzeros"}},
                         {outs, in},
                         fmt::format("{}, {} bits", gptq ? "gptq" : "awq", scheme_.bits)};
    if (gptq && has(base + ".g_idx")) {
      MAKAR_RETURN_IF_ERROR(require(base + ".g_idx", DType::kI32, {in}));
      m.parts["g_idx"] = base + ".g_idx";
    }
    out.emplace(base + ".weight", std::move(m));
    return Done{};
  }

  Status fp8(const std::string& name, PrequantizedMatrices& out) {
    const Entry& e = *entry_(name);
    if (e.dtype != DType::kF8_E4M3) return Done{};
    if (e.shape.rank() != 2 || e.shape.count() == 0) return tensor_error(name, "is not a matrix");
    const std::string inverse = name + "_scale_inv", plain = name + "_scale";
    const std::string& scale = has(inverse) ? inverse : plain;
    const Entry* s = entry_(scale);
    if (!s) return tensor_error(inverse, "is missing: it has the scales of an f8_e4m3 matrix");
    const auto block_count = [](int64_t n, int64_t block) { return block > 0 ? (n + block - 1) / block : 1; };
    const Shape blocks = {block_count(e.shape[0], scheme_.block_rows),
                          block_count(e.shape[1], scheme_.block_columns)};
    // Without block sizes in the config, files have one scale per matrix or one per row.
    const bool per_matrix = s->shape.count() == 1,
               per_row = s->shape == Shape{e.shape[0], 1} || s->shape == Shape{e.shape[0]};
    if (!per_matrix && !per_row) MAKAR_RETURN_IF_ERROR(require(scale, DType::kF32, blocks));
    if (!is_float(s->dtype) || s->dtype == DType::kF64) return tensor_error(scale, "is not f32, f16 or bf16");
    PrequantizedMatrix m{{{"weight", name}, {"scale", scale}}, e.shape, "fp8"};
    for (const char* other : {".input_scale", ".activation_scale"})
      if (const std::string extra = name.substr(0, name.rfind('.')) + other; has(extra))
        m.parts[other] = extra;
    out.emplace(name, std::move(m));
    return Done{};
  }

  Status mxfp4(const std::string& name, PrequantizedMatrices& out) {
    std::string base;
    if (!split_suffix(name, "_blocks", base)) return Done{};
    const Entry& e = *entry_(name);
    if (e.dtype != DType::kU8 || e.shape.rank() < 3 || e.shape.rank() > 4 || e.shape[-1] != 16 ||
        e.shape.count() == 0)
      return tensor_error(
          name, fmt::format("is {} {}, expected u8 [..., groups, 16]", makar::name(e.dtype), e.shape.text()));
    std::vector<int64_t> dims(e.shape.begin(), e.shape.end() - 1);
    MAKAR_RETURN_IF_ERROR(require(base + "_scales", DType::kU8, Shape(dims)));
    dims.back() *= 32;
    out.emplace(base,
                PrequantizedMatrix{{{"blocks", name}, {"scales", base + "_scales"}}, Shape(dims), "mxfp4"});
    return Done{};
  }

  Status bits_and_bytes(const std::string& name, PrequantizedMatrices& out) {
    std::string base;
    if (split_suffix(name, ".SCB", base)) {
      const Entry* w = entry_(base + ".weight");
      if (!w || w->dtype != DType::kI8 || w->shape.rank() != 2)
        return tensor_error(base + ".weight", "is not a matrix of i8");
      MAKAR_RETURN_IF_ERROR(require(name, DType::kF32, {w->shape[0]}));
      PrequantizedMatrix m{{{"weight", base + ".weight"}, {"SCB", name}}, w->shape, "int8"};
      if (has(base + ".weight_format")) m.parts["format"] = base + ".weight_format";
      out.emplace(base + ".weight", std::move(m));
      return Done{};
    }
    for (const char* kind : {"nf4", "fp4"})
      if (split_suffix(name, fmt::format(".quant_state.bitsandbytes__{}", kind), base)) {
        const Entry *w = entry_(base), *state = entry_(name), *scales = entry_(base + ".absmax");
        if (!w || w->dtype != DType::kU8) return tensor_error(base, "is missing or not u8");
        if (state->dtype != DType::kU8 || state->shape.count() > 4096)
          return tensor_error(name, "is not a text of at most 4096 bytes");
        MAKAR_RETURN_IF_ERROR(require(base + ".quant_map", DType::kF32, {16}));
        if (!scales || scales->shape.rank() != 1)
          return tensor_error(base + ".absmax", "is missing or not a list");
        PrequantizedMatrix m{
            {{"weight", base}, {"state", name}, {"absmax", base + ".absmax"}, {"map", base + ".quant_map"}},
            {},  // WeightFiles::combine_prequantized reads it from the state
            kind};
        if (scales->dtype == DType::kU8) {
          MAKAR_RETURN_IF_ERROR(require(base + ".nested_quant_map", DType::kF32, {256}));
          if (!has(base + ".nested_absmax") || entry_(base + ".nested_absmax")->dtype != DType::kF32)
            return tensor_error(base + ".nested_absmax", "is missing or not f32");
          m.parts["nested_map"] = base + ".nested_quant_map";
          m.parts["nested_absmax"] = base + ".nested_absmax";
        } else if (scales->dtype != DType::kF32) {
          return tensor_error(base + ".absmax", "is neither u8 nor f32");
        }
        out.emplace(base, std::move(m));
      }
    return Done{};
  }

  const PrequantizedScheme& scheme_;
  const FindEntry& entry_;
  const std::string& place_;
};

}  // namespace

Result<std::optional<PrequantizedScheme>> read_prequantized_scheme(const Config& config) {
  if (!config.has("quantization_config")) return std::optional<PrequantizedScheme>();
  MAKAR_TRY(const Config q, config.object("quantization_config"));
  MAKAR_TRY(const std::string method, q.text("quant_method"));
  PrequantizedScheme s;
  if (method == "gptq" || method == "awq") {
    s.method = method == "gptq" ? PrequantizedMethod::kGptq : PrequantizedMethod::kAwq;
    MAKAR_TRY(s.bits, q.integer({"bits", "w_bit"}, 2, 8));
    if (s.bits != 2 && s.bits != 4 && s.bits != 8)
      return q.field_error("bits", fmt::format("is {}; 2, 4 and 8 are supported", s.bits));
    if (s.bits == 2 && method == "awq") return q.field_error("bits", "is 2; AWQ has 4 or 8");
    MAKAR_TRY(s.group, q.integer_or({"group_size", "q_group_size"}, 128, -1, int64_t{1} << 20));
    if (s.group == 0) return q.field_error("group_size", "is 0; expected -1 or the size of a group");
    MAKAR_TRY(const std::string checkpoint_format, q.text_or("checkpoint_format", "gptq"));
    if (method == "gptq" && checkpoint_format != "gptq" && checkpoint_format != "gptq_v2")
      return q.field_error("checkpoint_format",
                           fmt::format("is {}; gptq and gptq_v2 are supported", quote(checkpoint_format)));
    s.zeros_less_one = checkpoint_format == "gptq";
    MAKAR_TRY(const std::string version, q.text_or("version", "gemm"));
    if (method == "awq" && version != "gemm" && version != "GEMM")
      return q.field_error("version", fmt::format("is {}; the layout 'gemm' is supported", quote(version)));
  } else if (method == "fp8") {
    s.method = PrequantizedMethod::kFp8;
    if (q.has("weight_block_size")) {
      MAKAR_TRY(const auto block, q.integers("weight_block_size", 1, 1 << 20, 2));
      if (block.size() != 2)
        return q.field_error("weight_block_size", "must have two values, rows and columns");
      s.block_rows = block[0], s.block_columns = block[1];
    }
    MAKAR_TRY(const std::string number_format, q.text_or("fmt", "e4m3"));
    if (number_format != "e4m3")
      return q.field_error("fmt", fmt::format("is {}; e4m3 is supported", quote(number_format)));
  } else if (method == "mxfp4") {
    s.method = PrequantizedMethod::kMxfp4;
  } else if (method == "bitsandbytes") {
    s.method = PrequantizedMethod::kBitsAndBytes;
  } else {
    return q.field_error(
        "quant_method",
        fmt::format("is {}; gptq, awq, fp8, mxfp4 and bitsandbytes are supported: load the model in "
                    "transformers, dequantize it and save it",
                    quote(method)));
  }
  return std::optional(s);
}

Result<PrequantizedMatrices> find_prequantized(const PrequantizedScheme& scheme,
                                               const std::vector<std::string>& names, const FindEntry& entry,
                                               const std::string& place) {
  PrequantizedMatrices out;
  Finder finder(scheme, entry, place);
  for (const std::string& name : names) MAKAR_RETURN_IF_ERROR(finder.visit(name, out));
  return out;
}

}  // namespace makar
