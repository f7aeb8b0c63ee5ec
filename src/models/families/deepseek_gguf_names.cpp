// The tensors of DeepSeek V2 and V3 in GGUF.
#include "models/families/pages.h"

namespace makar {
namespace {

std::vector<NameRule> latent_gguf_names(const ModelSpec& m) {
  const std::string layer = "decoder.layers.{}.", file_layer = "blk.{}.";
  return with_names(
      gguf::plain_names(m),
      {{layer + "attn.q_latent", file_layer + "attn_q_a"},
       {layer + "attn.q_norm", file_layer + "attn_q_a_norm"},
       {layer + "attn.q",
        file_layer + (m.main().first().attention.latent->query_rank > 0 ? "attn_q_b" : "attn_q")},
       {layer + "attn.kv_latent", file_layer + "attn_kv_a_mqa"},
       {layer + "attn.kv_norm", file_layer + "attn_kv_a_norm"},
       {layer + "ffn.router_correction", file_layer + "exp_probs_b.bias"},
       {layer + "ffn.shared.gate", file_layer + "ffn_gate_shexp"},
       {layer + "ffn.shared.up", file_layer + "ffn_up_shexp"},
       {layer + "ffn.shared.down", file_layer + "ffn_down_shexp"}});
}

}  // namespace

std::vector<NameRule> deepseek_gguf_names(const ModelSpec& m) {
  const int64_t heads = m.main().first().attention.heads;
  const std::string attn = "decoder.layers.{}.attn.", file_attn = "blk.{}.attn_";
  return with_names(latent_gguf_names(m), {NameRule(attn + "k", file_attn + "k_b", true).stacked(heads),
                                           NameRule(attn + "v", file_attn + "v_b").stacked(heads)});
}

// GGUF files of 2024 have k and v in one tensor.
std::vector<NameRule> deepseek_joined_names(const ModelSpec& m) {
  const std::string attn = "decoder.layers.{}.attn.";
  return with_names(latent_gguf_names(m),
                    {{{attn + "k", attn + "v"}, "blk.{}.attn_kv_b", m.main().first().attention.heads}});
}

}  // namespace makar
