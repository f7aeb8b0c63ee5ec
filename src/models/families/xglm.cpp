// XGLM (Lin et al., 2022): a multilingual pre-norm decoder with fairseq's sinusoidal positions.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_xglm(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "xglm";
  StackSpec s;
  s.name = "decoder";
  s.width = r.width({"d_model", "hidden_size"});
  const int64_t layers = r.layers({"num_layers", "num_hidden_layers"});
  BlockSpec b;
  AttentionSpec& a = b.attention;
  r.full_heads(a, s.width, {"attention_heads", "num_attention_heads"});
  a.qkv_bias = a.out_bias = true;
  a.dropout = r.dropout_or("attention_dropout", 0.1);
  b.feed_forward.width = r.integer("ffn_dim", 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation("activation_function", "gelu");
  b.feed_forward.bias = true;
  b.dropout = s.embedding.dropout = r.dropout_or("dropout", 0.1);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_position_embeddings", 2048);
  EmbeddingSpec& e = s.embedding;
  e.vocab = m.vocab;
  e.width = s.width;
  if (r.flag_or("scale_embedding", true)) e.scale = std::sqrt(static_cast<float>(s.width));
  e.positions = PositionKind::kFairseq;
  e.position_offset = 2;
  e.max_positions = m.max_positions + e.position_offset;
  m.head.kind = r.head("XGLM", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  r.special_tokens(m, 0, 2, 1);
  e.padding = m.pad;
  r.unsupported(r.flag_or("add_cross_attention", false), "add_cross_attention", "is not supported");
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return r.finish(m);
}

std::vector<NameRule> xglm_names(const ModelSpec&) {
  return with_names(fairseq_layer_names("decoder.layers.{}.", "model.layers.{}."),
                    {{"decoder.embed.tokens", "model.embed_tokens"},
                     {"decoder.embed.positions", "model.embed_positions"},
                     {"decoder.norm", "model.layer_norm"},
                     {"head.lm", "lm_head"}});
}

}  // namespace

const Family kXglm = {.type = "xglm",
                      .prefix = "model.",
                      .read = read_xglm,
                      .names = xglm_names,
                      .ignored = {"lm_head.weight", "embed_positions.weights"}};

}  // namespace makar
