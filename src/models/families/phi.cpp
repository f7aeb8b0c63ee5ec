// Phi (Gunasekar et al., 2023): attention and feed-forward in parallel after one norm, partial rotary
// positions, biases everywhere. Phi-3 and Phi-4 (Abdin et al., 2024): Llama with fused projections, a sliding
// window in the small models and longrope in models with a long context.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_phi(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.activation = "gelu_new", d.rotary_share = 0.5;
  ModelSpec m = read_llama_like(r, "phi", "Phi", d);
  StackSpec& s = *m.decoder;
  s.norm = {.kind = NormSpec::Kind::kLayer, .eps = r.number_or("layer_norm_eps", 1e-5, 0, 1)};
  s.embedding.dropout = r.dropout_or("embd_pdrop", 0.0);
  for (BlockSpec& b : s.blocks) {
    b.parallel = b.shared_norm = true;
    b.attention.qkv_bias = b.attention.out_bias = true;
    if (r.flag_or("qk_layernorm", false)) b.attention.qk_norm = QkNorm::kHead;
    b.feed_forward.gated = false, b.feed_forward.bias = true;
    b.dropout = r.dropout_or("resid_pdrop", 0.0);
  }
  m.head.lm_bias = m.head.kind == HeadKind::kCausalLm;
  return r.finish(m);
}

std::vector<NameRule> phi_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return with_names(llama_names(spec), {{layer + "attn.o", file_layer + "self_attn.dense"},
                                        {layer + "attn.q_norm", file_layer + "self_attn.q_layernorm"},
                                        {layer + "attn.k_norm", file_layer + "self_attn.k_layernorm"},
                                        {layer + "ffn.up", file_layer + "mlp.fc1"},
                                        {layer + "ffn.down", file_layer + "mlp.fc2"},
                                        {"decoder.norm", "model.final_layernorm"}});
}

Result<ModelSpec> read_phi3(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.eps = 1e-5, d.max_positions = 4096;
  ModelSpec m = read_llama_like(r, "phi3", "Phi3", d);
  r.special_tokens(m, 1, 32000, 32000);
  m.decoder->embedding.padding = m.pad;
  m.decoder->embedding.dropout = r.dropout_or("embd_pdrop", 0.0);
  r.windows(*m.decoder, r.window_or("sliding_window", 0), 0);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qkv_bias = b.attention.out_bias = b.feed_forward.bias = false;
    b.dropout = r.dropout_or("resid_pdrop", 0.0);
  }
  return r.finish(m);
}

std::vector<NameRule> phi3_fused(std::vector<NameRule> rules, const std::string& qkv,
                                 const std::string& gate_up) {
  const std::string layer = "decoder.layers.{}.";
  return with_names(std::move(rules), {{{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, qkv, 1},
                                       {{layer + "ffn.gate", layer + "ffn.up"}, gate_up, 1}});
}
std::vector<NameRule> phi3_names(const ModelSpec& spec) {
  return phi3_fused(llama_names(spec), "model.layers.{}.self_attn.qkv_proj",
                    "model.layers.{}.mlp.gate_up_proj");
}
std::vector<NameRule> phi3_gguf_names(const ModelSpec& spec) {
  return phi3_fused(gguf::plain_names(spec), "blk.{}.attn_qkv", "blk.{}.ffn_up");
}

const GgufSection kPhiGguf = {.architecture = "phi2",
                              .model = "PhiForCausalLM",
                              .keys = gguf::hf_sizes() +
                                      GgufKeys{{"attention.head_count_kv", "num_key_value_heads",
                                                GgufKey::kInteger, false, gguf::kv_heads}} +
                                      gguf::norm_key("layer_norm_eps") + gguf::rope_keys(),
                              .implied = {{"hidden_act", "gelu_new"}, {"qk_layernorm", false}},
                              .names = gguf::plain_names,
                              .rotary_share = "partial_rotary_factor"};
const GgufSection kPhi3Gguf = {.architecture = "phi3",
                               .model = "Phi3ForCausalLM",
                               .keys = gguf::llama_keys() + gguf::window_key(),
                               .implied = {{"hidden_act", "silu"}},
                               .names = phi3_gguf_names,
                               .rotary_share = "partial_rotary_factor"};

}  // namespace

const Family kPhi = {.type = "phi",
                     .prefix = "model.",
                     .read = read_phi,
                     .names = phi_names,
                     .ignored = {".rotary_emb.inv_freq"},
                     .gguf = &kPhiGguf};
const Family kPhi3 = {.type = "phi3",
                      .prefix = "model.",
                      .read = read_phi3,
                      .names = phi3_names,
                      .ignored = llama_ignored(),
                      .gguf = &kPhi3Gguf};

}  // namespace makar
