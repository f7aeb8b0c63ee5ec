// DeepSeek V2 and V3 (DeepSeek-AI, 2024): keys and values through a low-rank latent, a mixture of experts
// chosen from groups after the first layers, shared experts for all tokens. V3 routes with sigmoids and a
// correction bias for the choice of experts.
#include "models/families/pages.h"

namespace makar {
namespace {

void read_deepseek_attention(Reader& r, const Config& config, AttentionSpec& a, bool v3) {
  const int64_t unrotated_dim = r.integer_or("qk_nope_head_dim", 128, 1, 65536);
  LatentSpec l;
  const bool full_rank = config.json().contains("q_lora_rank") && config.json()["q_lora_rank"].is_null();
  l.query_rank = full_rank ? 0 : r.integer_or("q_lora_rank", 1536, 1, 65536);
  l.rank = r.integer_or("kv_lora_rank", 512, 1, 65536);
  l.value_dim = r.integer_or("v_head_dim", 128, 1, 65536);
  r.require(a.kv_heads == a.heads, "num_key_value_heads", "must equal num_attention_heads");
  a.head_dim = unrotated_dim + a.rope->rotary;
  r.require(l.value_dim <= a.head_dim, "v_head_dim", "must be at most qk_nope_head_dim + qk_rope_head_dim");
  a.latent = l;
  a.rope->interleaved = !v3 || r.flag_or("rope_interleave", true);
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  if (a.rope->scaling == ops::RopeScaling::kYarn && a.rope->mscale_all > 0 && a.rope->factor > 1) {
    const double m = 0.1 * a.rope->mscale_all * std::log(a.rope->factor) + 1.0;
    a.scale *= static_cast<float>(m * m);
  }
}

FeedForwardSpec read_deepseek_experts(Reader& r, FeedForwardSpec f, bool v3) {
  f = v3 ? r.experts(f, "n_routed_experts", 256, 8) : r.experts(f, "n_routed_experts", 64, 6);
  f.width = r.width_or("moe_intermediate_size", v3 ? 2048 : 1407);
  f.shared_width = f.width * r.integer_or("n_shared_experts", v3 ? 1 : 2, 0, 4096);
  // transformers ignores norm_topk_prob of V2; GGUF files have a key of their own.
  f.normalized = v3 ? r.flag_or("norm_topk_prob", true) : r.flag_or("gguf_weights_norm", false);
  f.routed_scale = r.number_or("routed_scaling_factor", v3 ? 2.5 : 1.0, 1e-6, 1e6);
  f.sigmoid_router = v3;
  f.shared_bias = f.bias && !v3, f.bias = false;  // as in transformers
  if (v3 || r.text_or("topk_method", "greedy") == "group_limited_greedy") {
    f.expert_groups = r.integer_or("n_group", v3 ? 8 : 1, 1, f.experts);
    f.groups_per_token = r.integer_or("topk_group", v3 ? 4 : 1, 1, f.expert_groups);
  }
  r.require(f.experts % f.expert_groups == 0, "n_group", "must divide n_routed_experts");
  r.require(f.experts_per_token <= f.experts / f.expert_groups * f.groups_per_token, "num_experts_per_tok",
            "exceeds the experts of topk_group groups");
  return f;
}

ModelSpec read_deepseek(Reader& r, const Config& config, const char* family, const char* model, bool v3) {
  LlamaDefaults d;
  d.max_positions = v3 ? 4096 : 2048;
  d.head_dim = r.integer_or("qk_rope_head_dim", 64, 2, 65536);
  ModelSpec m = read_llama_like(r, family, model, d);
  const int64_t first_routed = r.integer_or("first_k_dense_replace", v3 ? 3 : 0, 0, 4096);
  const int64_t period = r.integer_or("moe_layer_freq", 1, 1, 4096);
  for (int64_t i = 0; i < m.decoder->layers(); ++i) {
    BlockSpec& b = m.decoder->blocks[static_cast<size_t>(i)];
    read_deepseek_attention(r, config, b.attention, v3);
    if (i >= first_routed && i % period == 0) b.feed_forward = read_deepseek_experts(r, b.feed_forward, v3);
  }
  return m;
}

Result<ModelSpec> read_deepseek_v2(const Config& config) {
  Reader r(config);
  return r.finish(read_deepseek(r, config, "deepseek_v2", "DeepseekV2", false));
}

Result<ModelSpec> read_deepseek_v3(const Config& config) {
  Reader r(config);
  return r.finish(read_deepseek(r, config, "deepseek_v3", "DeepseekV3", true));
}

std::vector<NameRule> deepseek_attention_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.",
                    file_shared = file_layer + "mlp.shared_experts";
  const bool low_rank = spec.decoder->first().attention.latent->query_rank > 0;
  return {{layer + "attn.q_latent", file_layer + "self_attn.q_a_proj"},
          {layer + "attn.q_norm", file_layer + "self_attn.q_a_layernorm"},
          {layer + "attn.q", file_layer + (low_rank ? "self_attn.q_b_proj" : "self_attn.q_proj")},
          {layer + "attn.kv_latent", file_layer + "self_attn.kv_a_proj_with_mqa"},
          {layer + "attn.kv_norm", file_layer + "self_attn.kv_a_layernorm"},
          {{layer + "attn.k", layer + "attn.v"},
           file_layer + "self_attn.kv_b_proj",
           spec.decoder->first().attention.heads},
          {layer + "ffn.router_correction", file_layer + "mlp.gate.e_score_correction_bias"},
          {layer + "ffn.shared.gate", file_shared + ".gate_proj"},
          {layer + "ffn.shared.up", file_shared + ".up_proj"},
          {layer + "ffn.shared.down", file_shared + ".down_proj"}};
}

std::vector<NameRule> deepseek_names(const ModelSpec& spec) {
  return with_names(with_names(llama_names(spec), expert_names()), deepseek_attention_names(spec));
}
std::vector<NameRule> deepseek_names_in_memory(const ModelSpec& spec) {
  return with_names(with_names(llama_names(spec), fused_expert_names()), deepseek_attention_names(spec));
}

// Files of V3 have one more layer, for multi-token prediction.
std::vector<std::string> deepseek_v3_ignored() {
  std::vector<std::string> out = llama_ignored();
  out.push_back("model.layers.61.");
  return out;
}
}  // namespace

const Family kDeepseekV2 = {.type = "deepseek_v2",
                            .prefix = "model.",
                            .read = read_deepseek_v2,
                            .names = deepseek_names,
                            .names_in_memory = deepseek_names_in_memory,
                            .ignored = llama_ignored(),
                            .gguf = &deepseek_gguf(false)};
const Family kDeepseekV3 = {.type = "deepseek_v3",
                            .prefix = "model.",
                            .read = read_deepseek_v3,
                            .names = deepseek_names,
                            .names_in_memory = deepseek_names_in_memory,
                            .ignored = deepseek_v3_ignored(),
                            .gguf = &deepseek_gguf(true)};

}  // namespace makar
