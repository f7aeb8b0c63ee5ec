// T5 (Raffel et al., 2019): an encoder-decoder with RMSNorm, unscaled attention and learned biases per
// distance bucket; mT5 and UMT5 share the page. In UMT5 every layer has a table of biases.
#include "models/families/pages.h"

namespace makar {
namespace {

StackSpec read_t5_stack(Reader& r, const char* name, int64_t layers, bool decoder,
                        const std::string& family) {
  StackSpec s;
  s.name = name;
  s.width = r.width("d_model");
  BlockSpec b;
  s.norm.kind = NormSpec::Kind::kRms;
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-6, 0, 1);
  AttentionSpec& a = b.attention;
  a.causal = decoder;
  a.heads = a.kv_heads = r.heads("num_heads");
  a.head_dim = r.integer("d_kv", 1, 65536);
  a.scale = 1.0f;
  a.bias = BiasKind::kT5;
  a.bias_per_layer = family == "umt5";
  a.t5_buckets = r.integer_or("relative_attention_num_buckets", 32, 2, 65536);
  a.t5_max_distance = r.integer_or("relative_attention_max_distance", 128, 2, int64_t{1} << 24);
  r.require(a.t5_buckets % 4 == 0 || a.t5_buckets == 2, "relative_attention_num_buckets",
            "must be a multiple of 4");
  r.require(a.t5_max_distance > a.t5_buckets / 2, "relative_attention_max_distance",
            "must be more than half the buckets");
  a.dropout = b.dropout = s.embedding.dropout = r.dropout_or("dropout_rate", 0.1);
  if (decoder) {
    b.cross = a;
    b.cross->causal = false;
    b.cross->bias = BiasKind::kNone;
  }
  // "relu", "gated-gelu", "gated-silu"; "gated-gelu" is the tanh approximation, as in the original.
  std::string projection = r.text_or("feed_forward_proj", family == "t5" ? "relu" : "gated-gelu");
  b.feed_forward.gated = projection.rfind("gated-", 0) == 0;
  if (b.feed_forward.gated) projection = projection.substr(6);
  if (b.feed_forward.gated && projection == "gelu") projection = "gelu_new";
  b.feed_forward.activation = r.activation("dense_act_fn", projection);
  b.feed_forward.width = r.integer("d_ff", 1, int64_t{1} << 20);
  s.embedding.vocab = r.vocab("vocab_size");
  s.embedding.width = s.width;
  s.blocks.assign(static_cast<size_t>(layers), b);
  return s;
}

std::vector<NameRule> t5_stack_names(const std::string& stack, bool gated, bool decoder) {
  const std::string layer = stack + ".layers.{}.", file_layer = stack + ".block.{}.layer.";
  const std::string file_attn = file_layer + "0.SelfAttention.",
                    file_cross = file_layer + "1.EncDecAttention.";
  const std::string file_ffn = file_layer + (decoder ? "2." : "1.");
  std::vector<NameRule> rules = {
      {layer + "norm1", file_layer + "0.layer_norm"},
      {layer + "norm2", file_ffn + "layer_norm"},
      {layer + "ffn.gate", file_ffn + "DenseReluDense.wi_0"},
      {layer + "ffn.up", file_ffn + (gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi")},
      {layer + "ffn.down", file_ffn + "DenseReluDense.wo"},
      {stack + ".relative_bias", stack + ".block.0.layer.0.SelfAttention.relative_attention_bias"},
      {layer + "attn.relative_bias", file_attn + "relative_attention_bias"},
      {stack + ".norm", stack + ".final_layer_norm"}};
  for (const char* part : {"q", "k", "v", "o"}) {
    rules.emplace_back(layer + "attn." + part, file_attn + part);
    if (decoder) rules.emplace_back(layer + "cross." + part, file_cross + part);
  }
  if (decoder) rules.emplace_back(layer + "norm_cross", file_layer + "1.layer_norm");
  return rules;
}

std::vector<NameRule> t5_names(const ModelSpec& spec) {
  return with_names(with_names(t5_stack_names("encoder", spec.encoder->first().feed_forward.gated, false),
                               t5_stack_names("decoder", spec.decoder->first().feed_forward.gated, true)),
                    {{"encoder.embed.tokens", "shared"}, {"head.lm", "lm_head"}});
}

}  // namespace

ModelSpec read_t5_like(Reader& r, const char* family, const char* model) {
  ModelSpec m;
  m.family = family;
  const int64_t layers = r.layers("num_layers");
  m.encoder = read_t5_stack(r, "encoder", layers, false, family);
  m.decoder = read_t5_stack(r, "decoder", r.integer_or("num_decoder_layers", layers, 1, 1024), true, family);
  m.vocab = m.encoder->embedding.vocab;
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", m.family == "t5");
  if (r.flag_or("scale_decoder_outputs", m.head.tied && m.family != "mt5"))
    m.head.scale = 1.0f / std::sqrt(static_cast<float>(m.encoder->width));
  r.special_tokens(m, -1, 1, 0);
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  r.unsupported(m.head.kind != HeadKind::kCausalLm && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported for T5");
  return m;
}

Family t5_family(const char* type, Result<ModelSpec> (*read)(const Config&), const GgufSection* gguf) {
  return {.type = type,
          .prefix = "",
          .read = read,
          .names = t5_names,
          .ignored = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                      "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
          .gguf = gguf};
}

namespace {

Result<ModelSpec> read_t5(const Config& config) {
  Reader r(config);
  return r.finish(read_t5_like(r, "t5", "T5"));
}
const GgufSection kT5Gguf = t5_gguf(nullptr);

}  // namespace

const Family kT5 = t5_family("t5", read_t5, &kT5Gguf);

}  // namespace makar
