// GPT-2 (Radford et al., 2019): pre-norm, learned positions, weights stored [in, out].
#include "models/families/pages.h"

namespace makar {
ModelSpec read_gpt_like(Reader& r, const char* family, const char* model) {
  ModelSpec m;
  m.family = family;
  StackSpec s;
  s.name = "decoder";
  s.width = r.width({"n_embd", "hidden_size"});
  const int64_t layers = r.layers({"n_layer", "num_hidden_layers", "num_layers"});
  BlockSpec b;
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  AttentionSpec& a = b.attention;
  r.full_heads(a, s.width, {"n_head", "num_attention_heads", "num_heads"});
  a.qkv_bias = a.out_bias = true;
  a.dropout = r.dropout_or("attn_pdrop", 0.1);
  b.feed_forward.width = r.width_or({"n_inner", "intermediate_size"}, 4 * s.width);
  b.feed_forward.activation = r.activation("activation_function", "gelu_new");
  b.feed_forward.bias = true;
  b.dropout = r.dropout_or("resid_pdrop", 0.1);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or({"n_positions", "n_ctx", "max_position_embeddings"}, 1024);
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  s.embedding.positions = PositionKind::kLearned;
  s.embedding.max_positions = m.max_positions;
  s.embedding.dropout = r.dropout_or("embd_pdrop", 0.1);
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  last_token_classifier(r, m);
  r.special_tokens(m, 50256, 50256, -1);
  if (!r.flag_or("scale_attn_weights", true)) a.scale = 1.0f;
  s.blocks.assign(static_cast<size_t>(layers), b);
  if (r.flag_or("scale_attn_by_inverse_layer_idx", false))
    for (int64_t i = 0; i < layers; ++i)
      s.blocks[static_cast<size_t>(i)].attention.scale /= static_cast<float>(i + 1);
  m.decoder = s;
  return m;
}

namespace {

Result<ModelSpec> read_gpt2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gpt_like(r, "gpt2", "GPT2");
  r.unsupported(r.flag_or("add_cross_attention", false), "add_cross_attention", "is not supported");
  return r.finish(m);
}

std::vector<NameRule> gpt2_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  return {{"decoder.embed.tokens", "transformer.wte"},
          {"decoder.embed.positions", "transformer.wpe"},
          {layer + "norm1", file_layer + "ln_1"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, file_layer + "attn.c_attn", 1, true},
          {layer + "attn.o", file_layer + "attn.c_proj", true},
          {layer + "norm2", file_layer + "ln_2"},
          {layer + "ffn.up", file_layer + "mlp.c_fc", true},
          {layer + "ffn.down", file_layer + "mlp.c_proj", true},
          {"decoder.norm", "transformer.ln_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

const GgufSection kGpt2Gguf = {.architecture = "gpt2",
                               .model = "GPT2LMHeadModel",
                               .keys = gguf::sizes("n_embd", "n_layer", "n_head", "n_inner", "n_positions") +
                                       gguf::norm_key("layer_norm_epsilon"),
                               .implied = {{"activation_function", "gelu_new"},
                                           {"scale_attn_weights", true},
                                           {"scale_attn_by_inverse_layer_idx", false}},
                               .names = gguf::fused_names};

}  // namespace

const Family kGpt2 = {.type = "gpt2",
                      .prefix = "transformer.",
                      .read = read_gpt2,
                      .names = gpt2_names,
                      .ignored = {".attn.bias", ".attn.masked_bias", "lm_head.weight"},
                      .gguf = &kGpt2Gguf};

}  // namespace makar
