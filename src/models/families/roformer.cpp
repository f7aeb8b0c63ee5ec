// RoFormer (Su et al., 2021): BERT with rotary positions instead of learned ones.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_roformer(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "roformer", "RoFormer");
  StackSpec& s = *m.encoder;
  s.embedding.positions = PositionKind::kNone;
  s.embedding.project = s.embedding.project_bias = s.embedding.width != s.width;
  ops::RopeOptions rope;
  rope.rotary = s.first().attention.head_dim;
  rope.interleaved = true;
  r.require(rope.rotary % 2 == 0, "num_attention_heads", "gives heads of an odd size");
  const bool values = r.flag_or("rotary_value", false);
  for (BlockSpec& b : s.blocks) b.attention.rope = rope, b.attention.rope_values = values;
  s.rotary_rows = m.max_positions;
  HeadSpec& h = m.head;
  h.pooler = false;
  h.pool = PoolKind::kFirst;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  h.classifier_activation = s.first().feed_forward.activation;
  r.unsupported(h.kind == HeadKind::kPretraining, "architectures", "has a head that RoFormer does not have");
  return r.finish(m);
}

std::vector<NameRule> roformer_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = bert_body_names("roformer.");
  const bool sequence = spec.head.kind == HeadKind::kSequenceClass;
  rules.insert(rules.end(), {{"encoder.rotary", "roformer.encoder.embed_positions"},
                             {"encoder.embed.project", "roformer.embeddings_project"},
                             {"head.transform", "cls.predictions.transform.dense"},
                             {"head.transform_norm", "cls.predictions.transform.LayerNorm"},
                             {"head.lm.bias", "cls.predictions.bias"},
                             {"head.lm.weight", "cls.predictions.decoder.weight"},
                             {"head.dense", "classifier.dense"},
                             {"head.classifier", sequence ? "classifier.out_proj" : "classifier"},
                             {"head.answer", "qa_outputs"}});
  return rules;
}

}  // namespace

const Family kRoFormer = {.type = "roformer",
                          .prefix = "roformer.",
                          .read = read_roformer,
                          .names = roformer_names,
                          .ignored = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}};

}  // namespace makar
