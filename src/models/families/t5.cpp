// T5 (Raffel et al., 2019): an encoder-decoder with RMSNorm, unscaled attention and learned biases per
// distance bucket.
#include "models/families/pages.h"

namespace makar {
namespace {

StackSpec read_stack(Reader& r, const char* name, int64_t layers, bool decoder) {
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
  std::string form = r.text_or("feed_forward_proj", "relu");
  b.feed_forward.gated = form.rfind("gated-", 0) == 0;
  if (b.feed_forward.gated) form = form.substr(6);
  if (b.feed_forward.gated && form == "gelu") form = "gelu_new";
  b.feed_forward.activation = r.activation("dense_act_fn", form);
  b.feed_forward.width = r.integer("d_ff", 1, int64_t{1} << 20);
  s.embedding.vocab = r.vocab("vocab_size");
  s.embedding.width = s.width;
  s.blocks.assign(static_cast<size_t>(layers), b);
  return s;
}

Result<ModelSpec> read(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "t5";
  const int64_t layers = r.layers("num_layers");
  m.encoder = read_stack(r, "encoder", layers, false);
  m.decoder = read_stack(r, "decoder", r.integer_or("num_decoder_layers", layers, 1, 1024), true);
  m.vocab = m.encoder->embedding.vocab;
  m.head.kind = r.head("T5", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  if (r.flag_or("scale_decoder_outputs", m.head.tied))
    m.head.scale = 1.0f / std::sqrt(static_cast<float>(m.encoder->width));
  r.special_tokens(m, -1, 1, 0);
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  r.unsupported(m.head.kind != HeadKind::kCausalLm && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported for T5");
  return r.finish(m);
}

void add_stack(std::vector<NameRule>& rules, const std::string& stack, bool gated, bool decoder) {
  const std::string ours = stack + ".layers.{}.", theirs = stack + ".block.{}.layer.";
  const auto attention = [&](const std::string& part, const std::string& name) {
    for (const char* p : {"q", "k", "v", "o"})
      rules.emplace_back(ours + part + "." + p, theirs + name + "." + p);
  };
  attention("attn", "0.SelfAttention");
  rules.emplace_back(ours + "norm1", theirs + "0.layer_norm");
  if (decoder) {
    attention("cross", "1.EncDecAttention");
    rules.emplace_back(ours + "norm_cross", theirs + "1.layer_norm");
  }
  const std::string last = theirs + (decoder ? "2." : "1.");
  if (gated) rules.emplace_back(ours + "ffn.gate", last + "DenseReluDense.wi_0");
  rules.emplace_back(ours + "ffn.up", last + (gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"));
  rules.emplace_back(ours + "ffn.down", last + "DenseReluDense.wo");
  rules.emplace_back(ours + "norm2", last + "layer_norm");
  rules.emplace_back(stack + ".relative_bias",
                     stack + ".block.0.layer.0.SelfAttention.relative_attention_bias");
  rules.emplace_back(stack + ".norm", stack + ".final_layer_norm");
}

std::vector<NameRule> names(const ModelSpec& spec) {
  std::vector<NameRule> rules = {{"encoder.embed.tokens", "shared"}};
  add_stack(rules, "encoder", spec.encoder->first().feed_forward.gated, false);
  add_stack(rules, "decoder", spec.decoder->first().feed_forward.gated, true);
  rules.emplace_back("head.lm", "lm_head");
  return rules;
}

}  // namespace

const Family kT5 = {"t5",
                    "",
                    read,
                    names,
                    nullptr,
                    {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                     "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}};

}  // namespace makar
