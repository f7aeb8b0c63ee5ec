// ELECTRA (Clark et al., 2020): BERT's encoder, often with a narrower token embedding, as a generator (masked
// LM) or as a discriminator between replaced and real tokens.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_electra(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "electra", "Electra");
  EmbeddingSpec& e = m.encoder->embedding;
  e.width = r.width_or("embedding_size", 128);
  e.project = e.project_bias = e.width != m.encoder->width;
  HeadSpec& h = m.head;
  h.pooler = false;
  h.pool = PoolKind::kFirst;
  h.transform_width = e.width;
  h.transform_activation = Activation::kGelu;
  h.classifier_activation = Activation::kGelu;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  if (h.kind == HeadKind::kPretraining) {
    h.kind = HeadKind::kReplacedToken;
    h.transform = h.lm_bias = false;
    h.labels = 1;
    h.classifier_dense = true;
    h.classifier_activation = m.encoder->first().feed_forward.activation;
  }
  return r.finish(m);
}

std::vector<NameRule> electra_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = bert_body_names("electra.");
  const bool sequence = spec.head.kind == HeadKind::kSequenceClass,
             replaced = spec.head.kind == HeadKind::kReplacedToken;
  const std::string discriminator = "discriminator_predictions.";
  rules.insert(rules.end(), {{"encoder.embed.project", "electra.embeddings_project"},
                             {"head.transform", "generator_predictions.dense"},
                             {"head.transform_norm", "generator_predictions.LayerNorm"},
                             {"head.lm", "generator_lm_head"},
                             {"head.dense", replaced ? discriminator + "dense" : "classifier.dense"},
                             {"head.classifier", replaced   ? discriminator + "dense_prediction"
                                                 : sequence ? "classifier.out_proj"
                                                            : "classifier"},
                             {"head.answer", "qa_outputs"}});
  return rules;
}

}  // namespace

const Family kElectra = {.type = "electra",
                         .prefix = "electra.",
                         .read = read_electra,
                         .names = electra_names,
                         .ignored = {"embeddings.position_ids", "generator_lm_head.weight"}};

}  // namespace makar
