#include "convert/gguf_write.h"

#include "base/quote.h"
#include "models/gguf_rope.h"

namespace makar {
namespace {

Result<const GgufSection*> section_of(const LoadedModel& loaded) {
  if (loaded.family->gguf) return loaded.family->gguf;
  return error_of(Error::Kind::kUnsupported, "", "GGUF has no architecture for the family {}",
                  quote(loaded.family->type));
}

Status check_representable(const ModelSpec& spec, const GgufSection& section) {
  const auto refuse = [&](const std::string& what) {
    return error_of(Error::Kind::kUnsupported, "", "GGUF's architecture {} cannot represent a model with {}",
                    section.architecture, what);
  };
  for (const auto& [field, value] : section.implied)
    if (spec.config.contains(field) && !spec.config[field].is_null() && spec.config[field] != value)
      return refuse(fmt::format("{} = {}; it requires {}", field, spec.config[field].dump(), value.dump()));
  if (section.unsupported)
    if (const std::string what = section.unsupported(spec); !what.empty()) return refuse(what);
  if (spec.head.kind != HeadKind::kCausalLm && !section.body_only)
    return refuse("the head of a " + spec.architecture);
  return Done{};
}

}  // namespace

Result<GgufFields> gguf_fields(const LoadedModel& loaded) {
  const ModelSpec& spec = loaded.model->spec();
  MAKAR_TRY(const GgufSection* section, section_of(loaded));
  MAKAR_RETURN_IF_ERROR(check_representable(spec, *section));
  GgufFields fields;
  fields.set("general.architecture", GgufValue::text(section->architecture));
  fields.set("general.type", GgufValue::text("model"));
  for (const GgufKey& key : section->keys) {
    const double v = key.value(spec);
    if (v < 0) continue;
    const std::string full_key = std::string(section->architecture) + "." + key.key;
    fields.set(full_key, key.kind == GgufKey::kInteger ? GgufValue::u32(static_cast<uint32_t>(v))
                         : key.kind == GgufKey::kReal  ? GgufValue::f32(static_cast<float>(v))
                                                       : GgufValue::flag(v != 0));
  }
  if (section->put) section->put(spec, fields);
  MAKAR_RETURN_IF_ERROR(put_rope_fields(spec, section->architecture, fields));
  return fields;
}

Result<std::vector<GgufTensorSource>> gguf_sources(const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  MAKAR_TRY(const GgufSection* section, section_of(loaded));
  std::vector<GgufTensorSource> out;
  for (const NamedSlice& slice : expand(section->names(model.spec()), model.parameters())) {
    const DType type =
        slice.offset != 0 || slice.negative_exp ? DType::kF32 : slice.parameters[0]->value.dtype();
    out.push_back({slice.tensor_name, type, slice.shape(), [slice]() -> Result<Tensor> {
                     std::vector<Tensor> parts;
                     for (const Parameter* p : slice.parameters) parts.push_back(p->value);
                     return join_tensors(parts, slice);
                   }});
  }
  for (const NamedTensor& factors : gguf_rope_tensors(model.spec()))
    out.push_back({factors.name, DType::kF32, factors.tensor.shape(),
                   [t = factors.tensor]() -> Result<Tensor> { return t; }});
  return out;
}

}  // namespace makar
