// RoBERTa (Liu et al., 2019): BERT with positions counted from the padding index.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "roberta", "Roberta");
  EmbeddingSpec& e = m.encoder->embedding;
  e.count_positions = true;
  r.special_tokens(m, 0, 2, 1);
  e.padding = m.pad;
  e.position_offset = m.pad + 1;
  m.max_positions -= e.position_offset;
  r.require(m.pad >= 0 && m.max_positions > 0, "max_position_embeddings",
            "leaves no position after the padding index");
  HeadSpec& h = m.head;
  h.transform_activation = Activation::kGelu;
  h.pooler = h.kind == HeadKind::kNone;
  h.pool = PoolKind::kFirst;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  r.unsupported(h.kind == HeadKind::kPretraining, "architectures", "has a head that RoBERTa does not have");
  return r.finish(m);
}

std::vector<NameRule> names(const ModelSpec& spec) {
  std::vector<NameRule> rules = bert_body_names("roberta.");
  const bool sequence = spec.head.kind == HeadKind::kSequenceClass;
  rules.insert(rules.end(), {{"head.transform", "lm_head.dense"},
                             {"head.transform_norm", "lm_head.layer_norm"},
                             {"head.lm.bias", "lm_head.bias"},
                             {"head.lm.weight", "lm_head.decoder.weight"},
                             {"head.dense", "classifier.dense"},
                             {"head.classifier", sequence ? "classifier.out_proj" : "classifier"},
                             {"head.answer", "qa_outputs"}});
  return rules;
}

}  // namespace

const Family kRoberta = {
    "roberta", "roberta.", read,
    names,     nullptr,    {"embeddings.position_ids", "lm_head.decoder.weight", "lm_head.decoder.bias"}};

}  // namespace makar
