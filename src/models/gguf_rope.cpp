#include "models/gguf_rope.h"

#include <cmath>

#include "base/quote.h"

namespace makar {
namespace {

constexpr const char* kFactors = "rope_freqs.weight";

// The divisor of every frequency.
std::vector<float> factors_of(const ops::RopeOptions& options) {
  ops::RopeOptions plain = options;
  plain.scaling = ops::RopeScaling::kNone;
  const auto base = ops::rope_angles(plain, 0).frequencies, scaled = ops::rope_angles(options, 0).frequencies;
  std::vector<float> out;
  for (size_t i = 0; i < base.size(); ++i) out.push_back(static_cast<float>(base[i] / scaled[i]));
  return out;
}

// GGUF stores only the resulting factors of Llama 3's scaling. Its parameters are found by trying those of
// known models and comparing the factors; anything else is refused rather than approximated.
Status put_llama3(const Gguf& file, const GgufTensor& tensor, Json& config) {
  const auto refuse = [&](const std::string& why) {
    return error_of(Error::Kind::kUnsupported, std::string("tensor '") + kFactors + "'", "{}", why);
  };
  if (tensor.dtype != DType::kF32 || tensor.shape.rank() != 1) return refuse("must be a list of f32");
  const Tensor t = file.view(tensor);
  ops::RopeOptions o;
  o.rotary = 2 * t.count();
  o.theta = config.contains("rope_theta") ? config["rope_theta"].get<double>() : 10000.0;
  o.scaling = ops::RopeScaling::kLlama3;
  o.factor = t.f32()[t.count() - 1];
  if (o.theta <= 1 || !(o.factor >= 1) || o.rotary > 65536) return refuse("has values out of range");
  for (int64_t original = 16; original <= 1 << 20; original *= 2) {
    o.original_positions = original;
    const std::vector<float> want = factors_of(o);
    bool same = true;
    for (int64_t i = 0; i < t.count() && same; ++i)
      same = std::abs(want[static_cast<size_t>(i)] - t.f32()[i]) <= 1e-4f * std::abs(t.f32()[i]);
    if (!same) continue;
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", o.factor},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", original}};
    return Done{};
  }
  return refuse("has factors that do not match Llama 3's scaling");
}

}  // namespace

Status put_gguf_rope(const Gguf& file, const std::string& architecture, Json& config) {
  if (const GgufTensor* tensor = file.find(kFactors)) return put_llama3(file, *tensor, config);
  const std::string start = architecture + ".rope.scaling.";
  const std::string type = file.fields().text(start + "type").value_or("none");
  if (type == "none") return Done{};
  if (type != "linear" && type != "yarn")
    return error_of(Error::Kind::kUnsupported, fmt::format("key '{}type'", start),
                    "is {}, which is not supported; supported are none, linear and yarn", quote(type));
  const GgufValue* factor = file.fields().find(start + "factor");
  if (!factor || !factor->number())
    return error_at(fmt::format("key '{}factor'", start), "is missing or not a number; {} requires it", type);
  config["rope_scaling"] = {{"rope_type", type}, {"factor", *factor->number()}};
  if (const auto original = file.fields().integer(start + "original_context_length"))
    config["rope_scaling"]["original_max_position_embeddings"] = *original;
  return Done{};
}

Status put_rope_fields(const ModelSpec& spec, const std::string& architecture, GgufFields& fields) {
  const auto& rope = spec.main().first().attention.rope;
  if (!rope || rope->scaling == ops::RopeScaling::kNone || rope->scaling == ops::RopeScaling::kLlama3)
    return Done{};
  if (rope->scaling == ops::RopeScaling::kDynamic)
    return error_of(Error::Kind::kUnsupported, "", "GGUF cannot represent dynamic scaling of positions");
  const std::string start = architecture + ".rope.scaling.";
  const bool yarn = rope->scaling == ops::RopeScaling::kYarn;
  if (yarn &&
      (rope->beta_fast != 32 || rope->beta_slow != 1 || rope->attention_factor != 0 || rope->mscale != 0))
    return error_of(Error::Kind::kUnsupported, "",
                    "yarn scaling with non-default parameters cannot be written to GGUF");
  fields.set(start + "type", GgufValue::text(yarn ? "yarn" : "linear"));
  fields.set(start + "factor", GgufValue::f32(static_cast<float>(rope->factor)));
  if (yarn)
    fields.set(start + "original_context_length",
               GgufValue::u32(static_cast<uint32_t>(rope->original_positions)));
  return Done{};
}

std::optional<Tensor> gguf_rope_factors(const ModelSpec& spec) {
  const auto& rope = spec.main().first().attention.rope;
  if (!rope || rope->scaling != ops::RopeScaling::kLlama3) return std::nullopt;
  const std::vector<float> factors = factors_of(*rope);
  return Tensor::from({static_cast<int64_t>(factors.size())}, factors);
}

}  // namespace makar
