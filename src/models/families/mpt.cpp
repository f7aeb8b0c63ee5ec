// MPT (MosaicML, 2023): ALiBi, no biases anywhere, query, key and value in one matrix.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_mpt(const Config& config) {
  Reader r(config);
  Reader attention = r.inner("attn_config");
  ModelSpec m;
  m.family = "mpt";
  StackSpec s;
  s.name = "decoder";
  s.width = r.width({"d_model", "hidden_size"});
  const int64_t layers = r.layers({"n_layers", "num_hidden_layers"});
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  s.norm.bias = false;
  BlockSpec b;
  AttentionSpec& a = b.attention;
  a.heads = a.kv_heads = r.heads({"n_heads", "num_attention_heads"});
  a.head_dim = r.head_dim(s.width, a.heads, "n_heads");
  a.scale = attention.number_or("softmax_scale", 1.0 / std::sqrt(static_cast<double>(a.head_dim)), 1e-9, 1e9);
  if (attention.has("clip_qkv")) a.clip = attention.number_or("clip_qkv", 0.0, 1e-6, 1e9);
  a.dropout = attention.dropout_or("attn_pdrop", 0.0);
  a.bias = BiasKind::kAlibi;
  b.feed_forward.width = s.width * r.integer_or("expansion_ratio", 4, 1, 64);
  b.feed_forward.activation = Activation::kGelu;
  b.dropout = r.dropout_or("resid_pdrop", 0.0);
  s.embedding.dropout = r.dropout_or("emb_pdrop", 0.0);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_seq_len", 2048);
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  m.head.kind = r.head("Mpt", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  last_token_classifier(r, m);
  r.special_tokens(m, -1, -1, -1);
  attention.unsupported(!attention.flag_or("alibi", true), "alibi", "must be true");
  attention.unsupported(attention.integer_or("alibi_bias_max", 8, 1, 1024) != 8, "alibi_bias_max",
                        "must be 8");
  attention.unsupported(attention.flag_or("qk_ln", false), "qk_ln", "is not supported");
  r.unsupported(!r.flag_or("no_bias", true), "no_bias", "must be true");
  r.adopt(attention);
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return r.finish(m);
}

std::vector<NameRule> mpt_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.blocks.{}.";
  return {{"decoder.embed.tokens", "transformer.wte"},
          {layer + "norm1", file_layer + "norm_1"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, file_layer + "attn.Wqkv", 1},
          {layer + "attn.o", file_layer + "attn.out_proj"},
          {layer + "norm2", file_layer + "norm_2"},
          {layer + "ffn.up", file_layer + "ffn.up_proj"},
          {layer + "ffn.down", file_layer + "ffn.down_proj"},
          {"decoder.norm", "transformer.norm_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

double mpt_clip(const ModelSpec& m) {
  const float limit = m.main().first().attention.clip;
  return limit > 0 ? limit : -1;
}

const GgufSection kMptGguf = {
    .architecture = "mpt",
    .model = "MptForCausalLM",
    .keys = gguf::sizes("d_model", "n_layers", "n_heads", "", "max_seq_len") +
            gguf::norm_key("layer_norm_epsilon") +
            GgufKeys{{"attention.clamp_kqv", "clip_qkv", GgufKey::kReal, false, mpt_clip}} +
            gguf::alibi_key(),
    .names = gguf::fused_names,
    .derive =
        [](const Gguf&, Json& config) {
          if (const double limit = config.value("clip_qkv", 0.0); limit > 0)
            config["attn_config"] = {{"clip_qkv", limit}};
        },
    .unsupported = [](const ModelSpec& m) -> std::string {
      const double default_scale = 1.0 / std::sqrt(gguf::head_dim(m));
      if (std::abs(m.main().first().attention.scale / default_scale - 1.0) > 1e-5) return "softmax_scale";
      return gguf::feed_forward(m) == 4 * gguf::width(m) ? "" : "a feed-forward width other than 4 * d_model";
    }};

}  // namespace

const Family kMpt = {.type = "mpt",
                     .prefix = "transformer.",
                     .read = read_mpt,
                     .names = mpt_names,
                     .ignored = {"lm_head.weight"},
                     .gguf = &kMptGguf};

}  // namespace makar
