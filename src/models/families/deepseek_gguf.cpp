// The GGUF sections of DeepSeek V2 and V3, one architecture: V3's router uses sigmoids.
#include "models/families/pages.h"

namespace makar {
namespace {

using Kind = GgufKey::Kind;

const AttentionSpec& latent_attention(const ModelSpec& m) { return m.main().first().attention; }
const LatentSpec& mla(const ModelSpec& m) { return *latent_attention(m).latent; }
template <auto kField>
double mla(const ModelSpec& m) {
  return static_cast<double>(mla(m).*kField);
}
template <auto kField>
double moe(const ModelSpec& m) {
  return static_cast<double>(m.main().routed()->*kField);
}
double mla_rotary(const ModelSpec& m) { return static_cast<double>(latent_attention(m).rope->rotary); }
// llama.cpp computes with one key of rank + rotated dimensions for all heads.
double mla_key(const ModelSpec& m) { return mla<&LatentSpec::rank>(m) + mla_rotary(m); }
double shared_experts(const ModelSpec& m) {
  return moe<&FeedForwardSpec::shared_width>(m) / moe<&FeedForwardSpec::width>(m);
}
double dense_layers(const ModelSpec& m) {
  double count = 0;
  for (const BlockSpec& b : m.main().blocks) count += b.feed_forward.experts == 0;
  return count;
}

GgufKeys deepseek_gguf_keys() {
  using A = LatentSpec;
  using F = FeedForwardSpec;
  constexpr auto kInteger = Kind::kInteger;
  return gguf::hf_sizes() + gguf::rms_norm_key("rms_norm_eps") + gguf::expert_keys("n_routed_experts") +
         GgufKeys{
             {"attention.head_count_kv", "", kInteger, false, [](const ModelSpec&) { return 1.0; }},
             {"attention.key_length", "", kInteger, false, mla_key},
             {"attention.value_length", "", kInteger, false, mla<&A::rank>},
             {"attention.key_length_mla", "qk_head_dim", kInteger, false, gguf::head_dim},
             {"attention.value_length_mla", "v_head_dim", kInteger, false, mla<&A::value_dim>},
             {"attention.q_lora_rank", "q_lora_rank", kInteger, false, mla<&A::query_rank>},
             {"attention.kv_lora_rank", "kv_lora_rank", kInteger, true, mla<&A::rank>},
             {"rope.dimension_count", "qk_rope_head_dim", kInteger, true, mla_rotary},
             {"rope.dimension_count", "head_dim", kInteger, true, mla_rotary},
             {"rope.freq_base", "rope_theta", Kind::kReal, false, gguf::theta},
             {"leading_dense_block_count", "first_k_dense_replace", kInteger, false, dense_layers},
             {"expert_feed_forward_length", "moe_intermediate_size", kInteger, true, moe<&F::width>},
             {"expert_shared_count", "n_shared_experts", kInteger, true, shared_experts},
             {"expert_group_count", "n_group", kInteger, false, moe<&F::expert_groups>},
             {"expert_group_used_count", "topk_group", kInteger, false, moe<&F::groups_per_token>},
             {"expert_weights_scale", "routed_scaling_factor", Kind::kReal, false, moe<&F::routed_scale>},
             {"expert_weights_norm", "norm_topk_prob", Kind::kFlag, false, moe<&F::normalized>},
             {"expert_gating_func", "", kInteger, false,
              [](const ModelSpec& m) { return 1 + moe<&F::sigmoid_router>(m); }}};
}

bool routes_by_sigmoid(const GgufFields& f) {
  return f.integer("deepseek2.expert_gating_func").value_or(1) == 2;
}

void deepseek_derive(const Gguf& file, Json& config) {
  const auto integer_field = [&](const char* field, int64_t other) { return config.value(field, other); };
  // Files of 2024 have the sizes of the heads under the usual keys.
  for (const auto& [field, key] : {std::pair("qk_head_dim", "key"), std::pair("v_head_dim", "value")})
    if (const auto v = file.fields().integer(fmt::format("deepseek2.attention.{}_length", key));
        v && !config.contains(field))
      config[field] = *v;
  if (integer_field("q_lora_rank", 0) == 0) config["q_lora_rank"] = nullptr;
  config["qk_nope_head_dim"] = integer_field("qk_head_dim", 0) - integer_field("qk_rope_head_dim", 0);
  config["num_key_value_heads"] = integer_field("num_attention_heads", 1);
  for (const char* field : {"n_group", "topk_group"})
    config[field] = std::max<int64_t>(1, integer_field(field, 1));
  if (!file.fields().find("deepseek2.expert_weights_norm")) config["norm_topk_prob"] = false;
  if (!routes_by_sigmoid(file.fields())) config["gguf_weights_norm"] = config.value("norm_topk_prob", false);
}

std::string deepseek_unsupported(const ModelSpec& m) {
  if (!m.main().routed()) return "no experts";
  const FeedForwardSpec& f = *m.main().routed();
  const auto dense = static_cast<size_t>(dense_layers(m));
  for (size_t i = dense; i < m.main().blocks.size(); ++i)
    if (m.main().blocks[i].feed_forward.experts == 0) return "dense layers after the first with experts";
  if (f.shared_width == 0) return "no shared experts";
  if (!f.sigmoid_router && f.expert_groups > 1) return "groups of experts chosen by their best expert";
  return latent_attention(m).rope->interleaved ? "" : "rope_interleave = false";
}

GgufSection deepseek_section(const char* model, bool (*matches)(const GgufFields&)) {
  return {.architecture = "deepseek2",
          .model = model,
          .keys = deepseek_gguf_keys(),
          .implied = {{"hidden_act", "silu"}, {"attention_bias", false}, {"moe_layer_freq", 1}},
          .names = deepseek_gguf_names,
          .layouts = {{"blk.0.attn_kv_b.weight", deepseek_joined_names}},
          .matches = matches,
          .derive = deepseek_derive,
          .unsupported = deepseek_unsupported};
}

const GgufSection kDeepseek2Gguf =
    deepseek_section("DeepseekV2ForCausalLM", [](const GgufFields& f) { return !routes_by_sigmoid(f); });
const GgufSection kDeepseek3Gguf = deepseek_section("DeepseekV3ForCausalLM", routes_by_sigmoid);

}  // namespace

const GgufSection& deepseek_gguf(bool v3) { return v3 ? kDeepseek3Gguf : kDeepseek2Gguf; }

}  // namespace makar
