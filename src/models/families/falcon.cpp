// Falcon (Almazrouei et al., 2023): multi-query or grouped attention, attention and feed-forward in parallel
// as in PaLM, rotary positions or ALiBi.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_falcon(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "falcon";
  StackSpec s;
  s.name = "decoder";
  s.width = r.width({"hidden_size", "n_embed"});
  const int64_t layers = r.layers({"num_hidden_layers", "n_layer"});
  BlockSpec b;
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  const bool new_architecture = r.flag_or("new_decoder_architecture", false);
  const bool biases = r.flag_or("bias", false);
  b.parallel = new_architecture || r.flag_or("parallel_attn", true);
  // The newer architecture has two parallel norms unless the config says one; the older one has a shared
  // norm.
  b.shared_norm = b.parallel && !(new_architecture && r.integer_or("num_ln_in_parallel_attn", 2, 1, 2) == 2);
  AttentionSpec& a = b.attention;
  a.heads = r.heads({"num_attention_heads", "n_head"});
  a.kv_heads = new_architecture ? a.heads : (r.flag_or("multi_query", true) ? 1 : a.heads);
  if (new_architecture) r.kv_heads(a, {"num_kv_heads", "n_head_kv"}, a.heads);
  a.head_dim = r.head_dim(s.width, a.heads, "num_attention_heads");
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  a.qkv_bias = a.out_bias = biases;
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = r.width_or("ffn_hidden_size", 4 * s.width);
  b.feed_forward.activation = r.activation("activation", "gelu");
  b.feed_forward.bias = biases;
  b.dropout = r.dropout_or("hidden_dropout", 0.0);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_position_embeddings", 2048);
  if (r.flag_or("alibi", false)) {
    a.bias = BiasKind::kAlibi;
    a.alibi_scale = a.scale;  // Falcon scales scores and bias
    a.alibi_rounded = true;
  } else {
    a.rope = r.rope(a.head_dim, 10000.0, m.max_positions);
  }
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  m.head.kind = r.head("Falcon", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  last_token_classifier(r, m);
  r.special_tokens(m, 11, 11, -1);
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return r.finish(m);
}

std::vector<NameRule> falcon_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  const BlockSpec& b = spec.decoder->first();
  const bool two_norms = b.parallel && !b.shared_norm;
  return {{"decoder.embed.tokens", "transformer.word_embeddings"},
          {layer + "norm1", file_layer + (two_norms ? "ln_attn" : "input_layernorm")},
          {layer + "norm2", file_layer + (two_norms ? "ln_mlp" : "post_attention_layernorm")},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"},
           file_layer + "self_attention.query_key_value",
           b.attention.kv_heads},
          {layer + "attn.o", file_layer + "self_attention.dense"},
          {layer + "ffn.up", file_layer + "mlp.dense_h_to_4h"},
          {layer + "ffn.down", file_layer + "mlp.dense_4h_to_h"},
          {"decoder.norm", "transformer.ln_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

// With two parallel norms, the second one belongs to attention.
std::vector<NameRule> falcon_gguf_names(const ModelSpec& spec) {
  const BlockSpec& b = spec.decoder->first();
  if (!b.parallel || b.shared_norm) return gguf::fused_names(spec);
  return with_names(gguf::fused_names(spec), {{"decoder.layers.{}.norm1", "blk.{}.attn_norm_2"},
                                              {"decoder.layers.{}.norm2", "blk.{}.attn_norm"}});
}

void falcon_derive(const Gguf& file, Json& config) {
  const bool two_norms = file.find("blk.0.attn_norm_2.weight") != nullptr;
  const bool new_architecture = two_norms || config["num_kv_heads"] > 1;
  config["new_decoder_architecture"] = new_architecture;
  config["multi_query"] = config["num_kv_heads"] == 1;
  if (new_architecture) config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
}

const GgufSection kFalconGguf = {
    .architecture = "falcon",
    .model = "FalconForCausalLM",
    .keys = gguf::sizes("hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_hidden_size",
                        "max_position_embeddings") +
            gguf::norm_key("layer_norm_epsilon") +
            GgufKeys{{"attention.head_count_kv", "num_kv_heads", GgufKey::kInteger, true, gguf::kv_heads}} +
            gguf::rope_keys(),
    .implied = {{"alibi", false}, {"bias", false}, {"parallel_attn", true}},
    .names = falcon_gguf_names,
    .derive = falcon_derive};

}  // namespace

const Family kFalcon = {.type = "falcon",
                        .prefix = "transformer.",
                        .read = read_falcon,
                        .names = falcon_names,
                        .ignored = {"lm_head.weight", ".rotary_emb.inv_freq"},
                        .gguf = &kFalconGguf};

}  // namespace makar
