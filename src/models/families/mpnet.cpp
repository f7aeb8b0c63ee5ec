// MPNet (Song et al., 2020): BERT without token types, with one table of distance biases for all layers.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_mpnet(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "mpnet", "MPNet");
  EmbeddingSpec& e = m.encoder->embedding;
  e.types = 0;
  e.count_positions = true;
  r.special_tokens(m, 0, 2, 1);
  e.padding = 1;  // as in transformers, which ignores pad_token_id here
  e.position_offset = 2;
  m.max_positions -= e.position_offset;
  r.require(m.max_positions > 0, "max_position_embeddings", "leaves no position after the padding index");
  const int64_t buckets = r.integer_or("relative_attention_num_buckets", 32, 4, 65536);
  r.require(buckets == 32, "relative_attention_num_buckets",
            "must be 32: the reference implementation ignores the field and uses 32 buckets");
  for (BlockSpec& b : m.encoder->blocks) b.attention.bias = BiasKind::kT5, b.attention.t5_buckets = buckets;
  HeadSpec& h = m.head;
  h.transform_activation = Activation::kGelu;
  h.pooler = h.kind == HeadKind::kNone;
  h.pool = PoolKind::kFirst;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  r.unsupported(h.kind == HeadKind::kPretraining, "architectures", "has a head that MPNet does not have");
  return r.finish(m);
}

std::vector<NameRule> mpnet_names(const ModelSpec& spec) {
  const std::string layer = "encoder.layers.{}.", file_layer = "mpnet.encoder.layer.{}.";
  const bool sequence = spec.head.kind == HeadKind::kSequenceClass;
  return with_names(bert_body_names("mpnet."),
                    {{layer + "attn.q", file_layer + "attention.attn.q"},
                     {layer + "attn.k", file_layer + "attention.attn.k"},
                     {layer + "attn.v", file_layer + "attention.attn.v"},
                     {layer + "attn.o", file_layer + "attention.attn.o"},
                     {layer + "norm1", file_layer + "attention.LayerNorm"},
                     {"encoder.relative_bias", "mpnet.encoder.relative_attention_bias"},
                     {"head.transform", "lm_head.dense"},
                     {"head.transform_norm", "lm_head.layer_norm"},
                     {"head.lm.bias", "lm_head.bias"},
                     {"head.lm.weight", "lm_head.decoder.weight"},
                     {"head.dense", "classifier.dense"},
                     {"head.classifier", sequence ? "classifier.out_proj" : "classifier"},
                     {"head.answer", "qa_outputs"}});
}

}  // namespace

const Family kMpnet = {
    .type = "mpnet",
    .prefix = "mpnet.",
    .read = read_mpnet,
    .names = mpnet_names,
    .ignored = {"embeddings.position_ids", "lm_head.decoder.weight", "lm_head.decoder.bias"}};

}  // namespace makar
