// OPT (Zhang et al., 2022): learned positions that start at 2, ReLU, optional projections around a wider
// body.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_opt(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "opt";
  StackSpec s;
  s.name = "decoder";
  s.width = r.width("hidden_size");
  const int64_t layers = r.layers("num_hidden_layers");
  BlockSpec b;
  const bool pre_norm = r.flag_or("do_layer_norm_before", true), biases = r.flag_or("enable_bias", true);
  b.norm_position = pre_norm ? NormPosition::kPre : NormPosition::kPost;
  s.norm.affine = r.flag_or("layer_norm_elementwise_affine", true);
  AttentionSpec& a = b.attention;
  r.full_heads(a, s.width, "num_attention_heads");
  a.qkv_bias = a.out_bias = biases;
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = r.integer("ffn_dim", 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation("activation_function", "relu");
  b.feed_forward.bias = biases;
  b.dropout = r.dropout_or("dropout", 0.1);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_position_embeddings", 2048);
  EmbeddingSpec& e = s.embedding;
  e.vocab = m.vocab;
  e.width = r.width_or("word_embed_proj_dim", s.width);
  e.project = e.project_early = e.width != s.width;
  e.positions = PositionKind::kLearned;
  e.max_positions = m.max_positions + 2;
  e.position_offset = 2;
  e.count_positions = true;
  s.project_out = e.project ? e.width : 0;
  s.final_norm = pre_norm && !r.flag_or("_remove_final_layer_norm", false);
  m.head.kind = r.head("OPT", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  last_token_classifier(r, m);
  r.special_tokens(m, 2, 2, 1);
  s.embedding.padding = m.pad;
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return r.finish(m);
}

std::vector<NameRule> opt_names(const ModelSpec&) {
  return with_names(fairseq_layer_names("decoder.layers.{}.", "model.decoder.layers.{}."),
                    {{"decoder.embed.tokens", "model.decoder.embed_tokens"},
                     {"decoder.embed.positions", "model.decoder.embed_positions"},
                     {"decoder.embed.project", "model.decoder.project_in"},
                     {"decoder.project_out", "model.decoder.project_out"},
                     {"decoder.norm", "model.decoder.final_layer_norm"},
                     {"head.lm", "lm_head"},
                     {"head.classifier", "score"}});
}

}  // namespace

const Family kOpt = {"opt", "model.", read_opt, opt_names, nullptr, {"lm_head.weight"}};

}  // namespace makar
