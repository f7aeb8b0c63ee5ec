// DistilBERT (Sanh et al., 2019): half of BERT's layers, without token types and pooler.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_distilbert(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "distilbert", "DistilBert");
  m.encoder->embedding.types = 0;
  m.encoder->norm.eps = 1e-12f;
  HeadSpec& h = m.head;
  h.pooler = false;
  h.pool = PoolKind::kFirst;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  h.classifier_activation = Activation::kRelu;
  r.unsupported(h.kind == HeadKind::kPretraining, "architectures",
                "has a head that DistilBERT does not have");
  return r.finish(m);
}

std::vector<NameRule> distilbert_names(const ModelSpec&) {
  const std::string layer = "encoder.layers.{}.", file_layer = "distilbert.transformer.layer.{}.";
  return {{"encoder.embed.tokens", "distilbert.embeddings.word_embeddings"},
          {"encoder.embed.positions", "distilbert.embeddings.position_embeddings"},
          {"encoder.embed.norm", "distilbert.embeddings.LayerNorm"},
          {layer + "attn.q", file_layer + "attention.q_lin"},
          {layer + "attn.k", file_layer + "attention.k_lin"},
          {layer + "attn.v", file_layer + "attention.v_lin"},
          {layer + "attn.o", file_layer + "attention.out_lin"},
          {layer + "norm1", file_layer + "sa_layer_norm"},
          {layer + "ffn.up", file_layer + "ffn.lin1"},
          {layer + "ffn.down", file_layer + "ffn.lin2"},
          {layer + "norm2", file_layer + "output_layer_norm"},
          {"head.transform", "vocab_transform"},
          {"head.transform_norm", "vocab_layer_norm"},
          {"head.lm.bias", "vocab_projector.bias"},
          {"head.lm.weight", "vocab_projector.weight"},
          {"head.dense", "pre_classifier"},
          {"head.classifier", "classifier"},
          {"head.answer", "qa_outputs"}};
}

// GGUF stores it as a bert without token types; such a file is read as BERT.
const GgufSection kDistilBertGguf = bert_gguf("BertModel");

}  // namespace

const Family kDistilBert = {.type = "distilbert",
                            .prefix = "distilbert.",
                            .read = read_distilbert,
                            .names = distilbert_names,
                            .ignored = {"embeddings.position_ids", "vocab_projector.weight"},
                            .gguf = &kDistilBertGguf};

}  // namespace makar
