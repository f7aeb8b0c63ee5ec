#include "models/gguf_rope.h"

#include <cmath>

#include "base/quote.h"
#include "models/gguf_section.h"

namespace makar {
namespace {

constexpr const char* kLogMultiplier = "yarn_log_multiplier";
constexpr double kLogMultiplierScale = 0.1;  // the key stores mscale times this
constexpr const char* kFactors = "rope_freqs.weight";
constexpr const char* kShort = "rope_factors_short.weight";
constexpr const char* kLong = "rope_factors_long.weight";

// The number by which scaling divides each frequency.
std::vector<float> factors_of(const ops::RopeOptions& options) {
  ops::RopeOptions unscaled = options;
  unscaled.scaling = ops::RopeScaling::kNone;
  const auto base = ops::rope_frequencies(unscaled, 0).frequencies,
             scaled = ops::rope_frequencies(options, 0).frequencies;
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
  if (tensor.dtype != DType::kF32 || tensor.shape.rank() != 1) return refuse("must be an f32 vector");
  const Tensor t = file.view(tensor);
  ops::RopeOptions o;
  o.rotary = 2 * t.count();
  o.theta = config.contains("rope_theta") ? config["rope_theta"].get<double>() : 10000.0;
  o.scaling = ops::RopeScaling::kLlama3;
  o.factor = t.f32()[t.count() - 1];
  if (o.theta <= 1 || !(o.factor >= 1) || o.rotary > 65536) return refuse("has values out of range");
  for (int64_t original = 16; original <= 1 << 20; original *= 2) {
    o.original_positions = original;
    const std::vector<float> expected = factors_of(o);
    bool equal = true;
    for (int64_t i = 0; i < t.count() && equal; ++i)
      equal = std::abs(expected[static_cast<size_t>(i)] - t.f32()[i]) <= 1e-4f * std::abs(t.f32()[i]);
    if (!equal) continue;
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", o.factor},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", original}};
    return Done{};
  }
  return refuse("has factors that do not match Llama 3's scaling");
}

Result<std::vector<float>> read_factors(const Gguf& file, const char* name) {
  const GgufTensor* tensor = file.find(name);
  if (!tensor || tensor->dtype != DType::kF32 || tensor->shape.rank() != 1)
    return error_of(Error::Kind::kUnsupported, fmt::format("tensor '{}'", name), "must be an f32 vector");
  const Tensor t = file.view(*tensor);
  return std::vector<float>(t.f32(), t.f32() + t.count());
}

Status put_longrope(const Gguf& file, const std::string& prefix, Json& config) {
  MAKAR_TRY(const auto short_factors, read_factors(file, kShort));
  MAKAR_TRY(const auto long_factors, read_factors(file, kLong));
  config["rope_scaling"] = {
      {"rope_type", "longrope"}, {"short_factor", short_factors}, {"long_factor", long_factors}};
  if (const auto original = file.fields().integer(prefix + "original_context_length"))
    config["rope_scaling"]["original_max_position_embeddings"] = *original;
  if (const GgufValue* factor = file.fields().find(prefix + "attn_factor"); factor && factor->number())
    config["rope_scaling"]["attention_factor"] = *factor->number();
  return Done{};
}

}  // namespace

bool is_rope_tensor(const std::string& name) { return name == kFactors || name == kShort || name == kLong; }

Status put_gguf_rope(const Gguf& file, const std::string& architecture, Json& config) {
  if (const GgufTensor* tensor = file.find(kFactors)) return put_llama3(file, *tensor, config);
  const std::string prefix = architecture + ".rope.scaling.";
  if (file.find(kLong)) return put_longrope(file, prefix, config);
  const std::string type = file.fields().text(prefix + "type").value_or("none");
  if (type == "none") return Done{};
  if (type != "linear" && type != "yarn")
    return error_of(Error::Kind::kUnsupported, fmt::format("key '{}type'", prefix),
                    "is {}, which is not supported; supported are none, linear and yarn", quote(type));
  const GgufValue* factor = file.fields().find(prefix + "factor");
  if (!factor || !factor->number())
    return error_at(fmt::format("key '{}factor'", prefix), "is missing or not a number; {} requires it",
                    type);
  config["rope_scaling"] = {{"rope_type", type}, {"factor", *factor->number()}};
  if (const auto original = file.fields().integer(prefix + "original_context_length"))
    config["rope_scaling"]["original_max_position_embeddings"] = *original;
  if (const GgufValue* log = file.fields().find(prefix + kLogMultiplier); log && log->number())
    config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] =
        *log->number() / kLogMultiplierScale;
  return Done{};
}

Status put_rope_fields(const ModelSpec& spec, const std::string& architecture, GgufFields& fields) {
  const auto& rope = gguf::rotary_attention(spec).rope;
  if (!rope || rope->scaling == ops::RopeScaling::kNone || rope->scaling == ops::RopeScaling::kLlama3)
    return Done{};
  if (rope->scaling == ops::RopeScaling::kDynamic)
    return error_of(Error::Kind::kUnsupported, "", "GGUF cannot represent dynamic scaling of positions");
  const std::string prefix = architecture + ".rope.scaling.";
  const auto original = GgufValue::u32(static_cast<uint32_t>(rope->original_positions));
  if (rope->scaling == ops::RopeScaling::kLongRope) {
    fields.set(prefix + "type", GgufValue::text("longrope"));
    fields.set(prefix + "original_context_length", original);
    const double factor = ops::rope_frequencies(*rope, 0).attention_factor;
    fields.set(prefix + "attn_factor", GgufValue::f32(static_cast<float>(factor)));
    return Done{};
  }
  const bool yarn = rope->scaling == ops::RopeScaling::kYarn;
  // DeepSeek's two factors, for the scores and for the rotation; llama.cpp stores one number for both.
  const bool equal_factors =
      architecture == "deepseek2" && rope->mscale > 0 && rope->mscale == rope->mscale_all;
  if (yarn && (rope->beta_fast != 32 || rope->beta_slow != 1 || rope->attention_factor != 0 ||
               (rope->mscale != 0 && !equal_factors)))
    return error_of(Error::Kind::kUnsupported, "",
                    "yarn scaling with non-default parameters cannot be written to GGUF");
  fields.set(prefix + "type", GgufValue::text(yarn ? "yarn" : "linear"));
  fields.set(prefix + "factor", GgufValue::f32(static_cast<float>(rope->factor)));
  if (yarn) fields.set(prefix + "original_context_length", original);
  if (yarn && equal_factors)
    fields.set(prefix + kLogMultiplier,
               GgufValue::f32(static_cast<float>(kLogMultiplierScale * rope->mscale)));
  return Done{};
}

std::vector<NamedTensor> gguf_rope_tensors(const ModelSpec& spec) {
  const auto& rope = gguf::rotary_attention(spec).rope;
  if (!rope) return {};
  const auto tensor_of = [](const char* name, const std::vector<float>& values) {
    return NamedTensor{name, Tensor::from({static_cast<int64_t>(values.size())}, values)};
  };
  if (rope->scaling == ops::RopeScaling::kLlama3) return {tensor_of(kFactors, factors_of(*rope))};
  if (rope->scaling != ops::RopeScaling::kLongRope) return {};
  return {tensor_of(kShort, {rope->short_factors.begin(), rope->short_factors.end()}),
          tensor_of(kLong, {rope->long_factors.begin(), rope->long_factors.end()})};
}

}  // namespace makar
