// ELMo (Peters et al., 2018): a forward and a backward LSTM language model that share their token table and
// output matrix. "hidden_size" is the width of both together. Embeddings and the other heads use a mix of the
// token table and all layers: learned with a classification head, the mean otherwise. Differs from the
// paper's network: tokens of any tokenizer instead of characters, and no projections in the cells.
#include "models/families/pages.h"

namespace makar {
namespace {

StackSpec read_elmo_stack(Reader& r) {
  StackSpec s;
  s.name = "encoder";
  s.width = r.width("hidden_size");
  s.final_norm = false;
  r.require(s.width % 2 == 0, "hidden_size", "must be even: half of it is for each direction");
  BlockSpec b;
  b.recurrent = RecurrentSpec{CellKind::kLstm, s.width / 2, true, true};
  b.attention.causal = false;
  b.dropout = s.embedding.dropout = r.dropout_or("dropout", 0.0);
  s.embedding.vocab = r.vocab("vocab_size");
  s.embedding.width = s.width / 2;
  s.embedding.doubled = true;
  if (r.flag_or("scale_embedding", false)) s.embedding.scale = std::sqrt(static_cast<float>(s.width / 2));
  s.blocks.assign(static_cast<size_t>(r.layers("num_hidden_layers")), b);
  if (r.flag_or("use_skip_connections", true))
    for (size_t i = 1; i < s.blocks.size(); ++i) s.blocks[i].recurrent->residual = true;
  return s;
}

Result<ModelSpec> read_elmo(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "elmo";
  m.encoder = read_elmo_stack(r);
  m.vocab = m.encoder->embedding.vocab;
  m.head.kind = r.head("Elmo", m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  const bool lm = m.head.kind == HeadKind::kBidirectionalLm;
  const bool has_labels = m.head.kind == HeadKind::kSequenceClass || m.head.kind == HeadKind::kTokenClass;
  r.unsupported(!lm && !has_labels && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported");
  m.head.lm_bias = lm;
  m.encoder->mix = has_labels ? ScalarMixKind::kLearned : ScalarMixKind::kMean;
  if (has_labels) m.head.labels = r.labels();
  m.head.pool = PoolKind::kMean;
  r.special_tokens(m, -1, -1, -1);
  if (!r.has("initializer_range"))
    m.initializer_range = 1.0f / std::sqrt(1.5f * static_cast<float>(m.encoder->width));
  return r.finish(m);
}

std::vector<NameRule> elmo_names(const ModelSpec&) {
  std::vector<NameRule> rules = {{"head.lm.weight", "lm_head.weight"},
                                 {"head.lm.bias", "lm_head.bias"},
                                 {"head.classifier", "classifier"},
                                 {"encoder.embed.tokens", "model.embedding"},
                                 {"encoder.mix.weight", "model.mix.scalar_parameters"},
                                 {"encoder.mix.scale", "model.mix.gamma"}};
  for (const std::string direction : {"forward", "backward"})
    for (const std::string part : {"ih", "hh"})
      for (const std::string kind : {"weight", "bias"})
        rules.emplace_back("encoder.layers.{}." + direction + "." + part + "." + kind,
                           "model." + direction + "." + kind + "_" + part + "_l{}");
  return rules;
}

}  // namespace

const Family kElmo = {.type = "elmo", .prefix = "model.", .read = read_elmo, .names = elmo_names};

}  // namespace makar
