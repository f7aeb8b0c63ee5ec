// ALBERT (Lan et al., 2019): BERT with one set of block weights per group of layers, and a narrow token
// embedding that is projected to the width.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_albert(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "albert", "Albert");
  StackSpec& s = *m.encoder;
  s.groups = r.integer_or("num_hidden_groups", 1, 1, 1024);
  const Activation activation = r.activation("hidden_act", "gelu_new");
  s.embedding.dropout = r.dropout_or("hidden_dropout_prob", 0.0);
  for (BlockSpec& b : s.blocks) {
    b.attention.dropout = r.dropout_or("attention_probs_dropout_prob", 0.0);
    b.dropout = s.embedding.dropout;
    b.feed_forward.activation = activation;
  }
  s.embedding.width = r.width_or("embedding_size", 128);
  s.embedding.project = s.embedding.project_bias = true;
  m.head.transform_width = s.embedding.width;
  m.head.transform_activation = activation;
  r.unsupported(m.head.kind == HeadKind::kPretraining, "architectures",
                "has ALBERT's pretraining head, which is not supported");
  r.require(s.groups <= s.layers(), "num_hidden_groups", "exceeds the number of layers");
  // Each of the num_hidden_layers runs all inner layers of its group, one after the other.
  s.inner = r.integer_or("inner_group_num", 1, 1, 1024);
  r.require(s.layers() * s.inner <= 1024, "inner_group_num", "times the number of layers exceeds 1024");
  if (s.layers() * s.inner <= 1024)
    s.blocks.assign(s.blocks.size() * static_cast<size_t>(s.inner), BlockSpec(s.first()));
  return r.finish(m);
}

std::vector<NameRule> albert_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = {{"encoder.embed.tokens", "albert.embeddings.word_embeddings"},
                                 {"encoder.embed.positions", "albert.embeddings.position_embeddings"},
                                 {"encoder.embed.types", "albert.embeddings.token_type_embeddings"},
                                 {"encoder.embed.norm", "albert.embeddings.LayerNorm"},
                                 {"encoder.embed.project", "albert.encoder.embedding_hidden_mapping_in"},
                                 {"head.pooler", "albert.pooler"},
                                 {"head.transform", "predictions.dense"},
                                 {"head.transform_norm", "predictions.LayerNorm"},
                                 {"head.lm.bias", "predictions.bias"},
                                 {"head.lm.weight", "predictions.decoder.weight"},
                                 {"head.classifier", "classifier"},
                                 {"head.answer", "qa_outputs"}};
  const StackSpec& s = *spec.encoder;
  for (int64_t i = 0; i < s.distinct_layers(); ++i) {
    const std::string layer = fmt::format("encoder.layers.{}.", i),
                      file_layer = fmt::format("albert.encoder.albert_layer_groups.{}.albert_layers.{}.",
                                               i / s.inner, i % s.inner);
    rules.insert(rules.end(), {{layer + "attn.q", file_layer + "attention.query"},
                               {layer + "attn.k", file_layer + "attention.key"},
                               {layer + "attn.v", file_layer + "attention.value"},
                               {layer + "attn.o", file_layer + "attention.dense"},
                               {layer + "norm1", file_layer + "attention.LayerNorm"},
                               {layer + "ffn.up", file_layer + "ffn"},
                               {layer + "ffn.down", file_layer + "ffn_output"},
                               {layer + "norm2", file_layer + "full_layer_layer_norm"}});
  }
  return rules;
}

}  // namespace

const Family kAlbert = {
    "albert",    "albert.",
    read_albert, albert_names,
    nullptr,     {"embeddings.position_ids", "predictions.decoder.weight", "predictions.decoder.bias"}};

}  // namespace makar
