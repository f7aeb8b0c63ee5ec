// RoBERTa (Liu et al., 2019): BERT with positions counted from the padding index; XLM-RoBERTa (Conneau et
// al., 2020) and CamemBERT (Martin et al., 2020) are RoBERTas trained on other text.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_roberta_like(const Config& config, const char* family, const char* model) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, family, model);
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

Result<ModelSpec> read_roberta(const Config& config) {
  return read_roberta_like(config, "roberta", "Roberta");
}
Result<ModelSpec> read_xlm_roberta(const Config& config) {
  return read_roberta_like(config, "xlm-roberta", "XLMRoberta");
}
Result<ModelSpec> read_camembert(const Config& config) {
  return read_roberta_like(config, "camembert", "Camembert");
}

std::vector<NameRule> roberta_names(const ModelSpec& spec) {
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

// GGUF stores these models as bert, without the unused rows at the start of the position table; such files
// are read as BERT.
GgufSection roberta_as_bert() {
  GgufSection section = bert_gguf("BertModel");
  section.matches = [](const GgufFields&) { return false; };
  return section;
}
const GgufSection kRobertaGguf = roberta_as_bert();

Family roberta_family(const char* type, Result<ModelSpec> (*reader)(const Config&)) {
  return {.type = type,
          .prefix = "roberta.",
          .read = reader,
          .names = roberta_names,
          .ignored = {"embeddings.position_ids", "lm_head.decoder.weight", "lm_head.decoder.bias"},
          .gguf = &kRobertaGguf};
}

}  // namespace

const Family kRoberta = roberta_family("roberta", read_roberta);
const Family kXlmRoberta = roberta_family("xlm-roberta", read_xlm_roberta);
const Family kCamembert = roberta_family("camembert", read_camembert);

}  // namespace makar
