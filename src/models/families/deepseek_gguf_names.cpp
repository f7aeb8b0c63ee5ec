// The tensors of DeepSeek V2 and V3 in GGUF.
#include "models/families/pages.h"

namespace makar {
namespace {

std::vector<NameRule> latent_gguf_names(const ModelSpec& m) {
  const std::string ours = "decoder.layers.{}.", theirs = "blk.{}.";
  return with_names(gguf::plain_names(m),
                    {{ours + "attn.q_latent", theirs + "attn_q_a"},
                     {ours + "attn.q_norm", theirs + "attn_q_a_norm"},
                     {ours + "attn.q",
                      theirs + (m.main().first().attention.latent->query_rank > 0 ? "attn_q_b" : "attn_q")},
                     {ours + "attn.kv_latent", theirs + "attn_kv_a_mqa"},
                     {ours + "attn.kv_norm", theirs + "attn_kv_a_norm"},
                     {ours + "ffn.router_correction", theirs + "exp_probs_b.bias"},
                     {ours + "ffn.shared.gate", theirs + "ffn_gate_shexp"},
                     {ours + "ffn.shared.up", theirs + "ffn_up_shexp"},
                     {ours + "ffn.shared.down", theirs + "ffn_down_shexp"}});
}

}  // namespace

std::vector<NameRule> deepseek_gguf_names(const ModelSpec& m) {
  const int64_t heads = m.main().first().attention.heads;
  const std::string ours = "decoder.layers.{}.attn.", theirs = "blk.{}.attn_";
  return with_names(latent_gguf_names(m), {NameRule(ours + "k", theirs + "k_b", true).stacked(heads),
                                           NameRule(ours + "v", theirs + "v_b").stacked(heads)});
}

// GGUF files of 2024 have k and v in one tensor.
std::vector<NameRule> deepseek_joined_names(const ModelSpec& m) {
  const std::string ours = "decoder.layers.{}.attn.";
  return with_names(latent_gguf_names(m),
                    {{{ours + "k", ours + "v"}, "blk.{}.attn_kv_b", m.main().first().attention.heads}});
}

}  // namespace makar
