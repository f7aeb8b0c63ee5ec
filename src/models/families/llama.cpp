// Llama 1-3 (Touvron et al., 2023): pre-RMSNorm, rotary positions, gated SiLU, grouped queries.
#include "models/families/pages.h"

namespace makar {

ModelSpec read_llama_like(Reader& r, const char* family, const char* model, const LlamaDefaults& d) {
  ModelSpec m;
  m.family = family;
  StackSpec s;
  s.name = "decoder";
  s.width = r.width("hidden_size");
  const int64_t layers = r.layers("num_hidden_layers");
  BlockSpec b;
  s.norm.kind = NormSpec::Kind::kRms;
  s.norm.eps = r.number_or("rms_norm_eps", d.eps, 0, 1);
  AttentionSpec& a = b.attention;
  a.heads = r.heads("num_attention_heads");
  r.kv_heads(a, "num_key_value_heads", a.heads);
  a.head_dim = r.has("head_dim") ? r.integer("head_dim", 1, 65536)
               : d.head_dim > 0  ? d.head_dim
                                 : r.head_dim(s.width, a.heads, "num_attention_heads");
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  a.qkv_bias = a.out_bias = r.flag_or("attention_bias", false);
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = r.integer("intermediate_size", 1, int64_t{1} << 20);
  if (*d.activation)
    b.feed_forward.activation = r.activation({"hidden_activation", "hidden_act"}, d.activation);
  b.feed_forward.gated = true;
  b.feed_forward.bias = r.flag_or("mlp_bias", false);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_position_embeddings", d.max_positions);
  a.rope = r.rope(a.head_dim, d.theta, m.max_positions, d.rotary_share);
  // The base grows with the length, so the context is longer by the factor than max_position_embeddings.
  if (a.rope->scaling == ops::RopeScaling::kDynamic)
    m.max_positions = static_cast<int64_t>(static_cast<double>(m.max_positions) * a.rope->factor);
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", false);
  last_token_classifier(r, m);
  r.special_tokens(m, 1, 2, -1);
  s.embedding.padding = m.pad;
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return m;
}

std::vector<NameRule> llama_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return {{"decoder.embed.tokens", "model.embed_tokens"},
          {layer + "norm1", file_layer + "input_layernorm"},
          {layer + "attn.q", file_layer + "self_attn.q_proj"},
          {layer + "attn.k", file_layer + "self_attn.k_proj"},
          {layer + "attn.v", file_layer + "self_attn.v_proj"},
          {layer + "attn.o", file_layer + "self_attn.o_proj"},
          {layer + "attn.q_norm", file_layer + "self_attn.q_norm"},
          {layer + "attn.k_norm", file_layer + "self_attn.k_norm"},
          {layer + "norm2", file_layer + "post_attention_layernorm"},
          {layer + "ffn.gate", file_layer + "mlp.gate_proj"},
          {layer + "ffn.up", file_layer + "mlp.up_proj"},
          {layer + "ffn.down", file_layer + "mlp.down_proj"},
          {"decoder.norm", "model.norm"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

namespace {

Result<ModelSpec> read_llama(const Config& config) {
  Reader r(config);
  ModelSpec m = read_llama_like(r, "llama", "Llama", {});
  return r.finish(m);
}

const GgufSection kLlamaGguf = {.architecture = "llama",
                                .model = "LlamaForCausalLM",
                                .keys = gguf::llama_keys(),
                                .implied = {{"hidden_act", "silu"}, {"mlp_bias", false}},
                                .names = gguf::paired_names,
                                .fields_by_tensor = {{"attention_bias", "blk.0.attn_q.bias", true, false}},
                                // Files with a window or experts are Mistral's and Mixtral's.
                                .matches = [](const GgufFields& f) {
                                  return f.integer("llama.attention.sliding_window").value_or(0) <= 0 &&
                                         f.integer("llama.expert_count").value_or(0) <= 0;
                                }};

}  // namespace

const Family kLlama = {.type = "llama",
                       .prefix = "model.",
                       .read = read_llama,
                       .names = llama_names,
                       .ignored = llama_ignored(),
                       .gguf = &kLlamaGguf};

}  // namespace makar
