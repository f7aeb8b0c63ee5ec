// ModernBERT (Warner et al., 2024): a pre-norm encoder with rotary positions, gated feed-forward, no biases,
// and two layers with a narrow window per full layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_modernbert(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "modernbert";
  StackSpec s;
  s.name = "encoder";
  s.width = r.width("hidden_size");
  const int64_t layers = r.layers("num_hidden_layers");
  s.norm.eps = r.number_or("norm_eps", 1e-5, 0, 1);
  s.norm.bias = r.flag_or("norm_bias", false);
  BlockSpec b;
  AttentionSpec& a = b.attention;
  a.causal = false;
  r.full_heads(a, s.width, "num_attention_heads");
  a.qkv_bias = a.out_bias = r.flag_or("attention_bias", false);
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = r.integer("intermediate_size", 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation("hidden_activation", "gelu");
  b.feed_forward.gated = true;
  b.feed_forward.bias = r.flag_or("mlp_bias", false);
  b.dropout = r.dropout_or("mlp_dropout", 0.0);
  s.blocks.assign(static_cast<size_t>(layers), b);
  s.blocks[0].attention_norm = false;  // the norm of the embedding replaces it
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_position_embeddings", 8192);
  // local_attention counts both sides. By default every third layer is full, starting with the first.
  const int64_t window = r.integer_or("local_attention", 128, 0, int64_t{1} << 40) / 2 + 1;
  const int64_t period = r.integer_or("global_attn_every_n_layers", 3, 1, 1024);
  r.windows(s, window, 1);
  const auto global =
      r.rope(a.head_dim, 160000.0, m.max_positions, 1.0, "full_attention", "global_rope_theta");
  const auto local =
      r.rope(a.head_dim, 10000.0, m.max_positions, 1.0, "sliding_attention", "local_rope_theta");
  for (int64_t i = 0; i < layers; ++i) {
    AttentionSpec& attention = s.blocks[static_cast<size_t>(i)].attention;
    if (!r.has("layer_types") && i % period != 0) attention.window = window;
    attention.rope = attention.window > 0 ? local : global;
  }
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  s.embedding.norm = true;
  s.embedding.dropout = r.dropout_or("embedding_dropout", 0.0);
  m.head.kind = r.head("ModernBert", m);
  HeadSpec& h = m.head;
  h.tied = r.flag_or("tie_word_embeddings", true);
  if (h.kind != HeadKind::kNone) {  // every head has the same dense layer and norm before it
    h.transform = true;
    h.transform_bias = r.flag_or("classifier_bias", false);
    h.transform_width = s.width;
    h.transform_activation = r.activation("classifier_activation", "gelu");
    h.lm_bias = r.flag_or("decoder_bias", true);
    h.labels = h.kind == HeadKind::kMaskedLm ? 0 : r.labels();
    const std::string pooling = r.text_or("classifier_pooling", "cls");
    r.require(pooling == "cls" || pooling == "mean", "classifier_pooling", "must be 'cls' or 'mean'");
    h.pool = pooling == "mean" ? PoolKind::kMean : PoolKind::kFirst;
  }
  r.unsupported(h.kind == HeadKind::kPretraining || h.kind == HeadKind::kCausalLm, "architectures",
                "has a head that ModernBERT does not have");
  r.special_tokens(m, 50281, 50282, 50283);
  s.embedding.padding = m.pad;
  m.encoder = s;
  return r.finish(m);
}

std::vector<NameRule> modernbert_names(const ModelSpec&) {
  const std::string layer = "encoder.layers.{}.", file_layer = "model.layers.{}.";
  return {{"encoder.embed.tokens", "model.embeddings.tok_embeddings"},
          {"encoder.embed.norm", "model.embeddings.norm"},
          {layer + "norm1", file_layer + "attn_norm"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, file_layer + "attn.Wqkv", 1},
          {layer + "attn.o", file_layer + "attn.Wo"},
          {layer + "norm2", file_layer + "mlp_norm"},
          {{layer + "ffn.gate", layer + "ffn.up"}, file_layer + "mlp.Wi", 1},
          {layer + "ffn.down", file_layer + "mlp.Wo"},
          {"encoder.norm", "model.final_norm"},
          {"head.transform", "head.dense"},
          {"head.transform_norm", "head.norm"},
          {"head.lm", "decoder"},
          {"head.classifier", "classifier"},
          {"head.answer", "classifier"}};
}

}  // namespace

const Family kModernBert = {.type = "modernbert",
                            .prefix = "model.",
                            .read = read_modernbert,
                            .names = modernbert_names,
                            .ignored = {"decoder.weight"},
                            .gguf = &modernbert_gguf()};

}  // namespace makar
