// BLOOM (Scao et al., 2022): ALiBi, a norm after the embeddings, query, key and value fused per head.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_bloom(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "bloom";
  StackSpec s;
  s.name = "decoder";
  s.width = r.width({"hidden_size", "n_embed"});
  const int64_t layers = r.layers({"n_layer", "num_hidden_layers"});
  BlockSpec b;
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  b.residual_after_norm = r.flag_or("apply_residual_connection_post_layernorm", false);
  AttentionSpec& a = b.attention;
  r.full_heads(a, s.width, {"n_head", "num_attention_heads"});
  a.qkv_bias = a.out_bias = true;
  a.bias = BiasKind::kAlibi;
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = 4 * s.width;
  b.feed_forward.activation = Activation::kGeluTanh;
  b.feed_forward.bias = true;
  b.dropout = r.dropout_or("hidden_dropout", 0.0);
  m.vocab = r.vocab("vocab_size");
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  s.embedding.norm = true;
  m.head.kind = r.head("Bloom", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  last_token_classifier(r, m);
  r.special_tokens(m, 1, 2, 3);
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return r.finish(m);
}

std::vector<NameRule> bloom_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  return {{"decoder.embed.tokens", "transformer.word_embeddings"},
          {"decoder.embed.norm", "transformer.word_embeddings_layernorm"},
          {layer + "norm1", file_layer + "input_layernorm"},
          {layer + "norm2", file_layer + "post_attention_layernorm"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"},
           file_layer + "self_attention.query_key_value",
           spec.decoder->first().attention.heads},
          {layer + "attn.o", file_layer + "self_attention.dense"},
          {layer + "ffn.up", file_layer + "mlp.dense_h_to_4h"},
          {layer + "ffn.down", file_layer + "mlp.dense_4h_to_h"},
          {"decoder.norm", "transformer.ln_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

const GgufSection kBloomGguf = {
    .architecture = "bloom",
    .model = "BloomForCausalLM",
    .keys = gguf::sizes("hidden_size", "n_layer", "n_head", "", "") + gguf::norm_key("layer_norm_epsilon") +
            GgufKeys{{"attention.head_count_kv", "", GgufKey::kInteger, false, gguf::kv_heads}} +
            gguf::alibi_key(),
    .implied = {{"apply_residual_connection_post_layernorm", false}},
    .names = gguf::fused_names,
    .unsupported = [](const ModelSpec& m) -> std::string {
      return gguf::feed_forward(m) == 4 * gguf::width(m) ? ""
                                                         : "a feed-forward width other than 4 * hidden_size";
    }};

}  // namespace

const Family kBloom = {.type = "bloom",
                       .prefix = "transformer.",
                       .read = read_bloom,
                       .names = bloom_names,
                       .ignored = {"lm_head.weight"},
                       .gguf = &kBloomGguf};

}  // namespace makar
