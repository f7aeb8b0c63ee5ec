#include "models/gguf_save.h"

#include "models/gguf_architecture.h"
#include "models/gguf_rope.h"

namespace makar {
namespace {

// Experts have a dimension of their own.
Shape file_shape(const NamedSlice& slice) {
  const Shape s = slice.shape();
  const auto parts = static_cast<int64_t>(slice.ours.size());
  if (slice.ours[0]->name.find(".experts.") == std::string::npos) return s;
  return {parts, s[0] / parts, s[1]};
}

// Rows of a position table before the first position (RoBERTa's padding); GGUF does not store them.
int64_t rows_before_first(const NamedSlice& slice, const ModelSpec& spec) {
  return spec.encoder && slice.theirs == "position_embd.weight" ? spec.encoder->embedding.position_offset : 0;
}

}  // namespace

Result<std::vector<GgufSource>> gguf_sources(const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  const GgufArchitecture* a = gguf_architecture_of(model.spec().family);
  if (!a)
    return error_of(Error::Kind::kUnsupported, "", "GGUF has no architecture for the family '{}'",
                    model.spec().family);
  std::vector<GgufSource> out;
  for (const NamedSlice& slice : expand(a->names(model.spec()), model.parameters())) {
    const Shape whole = file_shape(slice);
    const int64_t skipped = rows_before_first(slice, model.spec());
    Shape shape = whole;
    shape[0] -= skipped;
    const DType type = slice.offset != 0 ? DType::kF32 : slice.ours[0]->value.dtype();
    out.push_back({slice.theirs, type, shape, [slice, whole, skipped]() -> Result<Tensor> {
                     std::vector<Tensor> parts;
                     for (const Parameter* p : slice.ours) parts.push_back(p->value);
                     const Tensor all = join(parts, slice).reshape(whole);
                     return skipped > 0 ? all.slice(skipped, all.dim(0)) : all;
                   }});
  }
  if (const auto factors = gguf_rope_factors(model.spec()))
    out.push_back({"rope_freqs.weight", DType::kF32, factors->shape(),
                   [t = *factors]() -> Result<Tensor> { return t; }});
  return out;
}

bool may_be_quantized(const GgufSource& t) {
  if (t.shape.rank() < 2 || !t.name.ends_with(".weight")) return false;
  for (const char* wide : {"ffn_gate_inp", "position_embd", "token_types", "attn_rel_b", "_norm"})
    if (t.name.find(wide) != std::string::npos) return false;
  return true;
}

}  // namespace makar
