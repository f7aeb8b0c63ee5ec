// Recurrent networks: RNN (Elman, 1990), LSTM (Hochreiter and Schmidhuber, 1997) and GRU (Cho et al., 2014),
// as language models, classifiers (in both directions if "bidirectional") and encoder-decoders with attention
// (Luong et al., 2015; Bahdanau et al., 2015). The weights of a layer have the names of torch.nn.LSTM.
#include "models/families/pages.h"

namespace makar {
namespace {

// The cache of a layer: one state per token, stored as values in heads of at most 128.
AttentionSpec recurrent_cache(int64_t width) {
  AttentionSpec a;
  a.head_dim = std::min<int64_t>(width, 128);
  while (width % a.head_dim != 0) --a.head_dim;
  a.heads = a.kv_heads = width / a.head_dim;
  // A state depends only on the one before. The window also keeps the states before rejected draft tokens.
  a.window = 128;
  return a;
}

StackSpec read_recurrent_stack(Reader& r, CellKind cell, const std::string& name, bool bidirectional) {
  StackSpec s;
  s.name = name;
  s.width = r.width("hidden_size");
  s.final_norm = false;
  r.require(!bidirectional || s.width % 2 == 0, "hidden_size", "must be even for two directions");
  BlockSpec b;
  b.recurrent = RecurrentSpec{};
  b.recurrent->cell = cell;
  b.recurrent->bidirectional = bidirectional;
  b.recurrent->hidden = bidirectional ? s.width / 2 : s.width;
  b.attention = recurrent_cache(cell == CellKind::kLstm ? 2 * s.width : s.width);
  b.attention.causal = name == "decoder";
  b.dropout = s.embedding.dropout = r.dropout_or("dropout", 0.0);
  s.embedding.vocab = r.vocab("vocab_size");
  s.embedding.width = s.width;
  // The values of a tied embedding table are too small as the input of a cell.
  if (r.flag_or("scale_embedding", false)) s.embedding.scale = std::sqrt(static_cast<float>(s.width));
  s.blocks.assign(static_cast<size_t>(r.layers("num_hidden_layers")), b);
  return s;
}

Result<ModelSpec> read_recurrent(const Config& config, CellKind cell, const char* family, const char* model) {
  Reader r(config);
  ModelSpec m;
  m.family = family;
  const bool bidirectional = r.flag_or("bidirectional", false);
  const bool seq2seq = r.flag_or("is_encoder_decoder", false);
  if (seq2seq || bidirectional) m.encoder = read_recurrent_stack(r, cell, "encoder", bidirectional);
  if (seq2seq || !bidirectional) m.decoder = read_recurrent_stack(r, cell, "decoder", false);
  if (seq2seq) recurrent_attention(r, m);
  m.vocab = m.main().embedding.vocab;
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  m.head.lm_bias = true;
  const bool lm = m.head.kind == HeadKind::kCausalLm;
  const bool has_labels = m.head.kind == HeadKind::kSequenceClass || m.head.kind == HeadKind::kTokenClass;
  r.unsupported(!lm && !has_labels && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported");
  r.require(!lm || m.decoder.has_value(), "bidirectional", "must be false for a language model");
  r.require(lm || !seq2seq, "architectures", "must be a language model for an encoder-decoder");
  if (!lm) m.head.lm_bias = false;
  if (has_labels) m.head.labels = r.labels();
  m.head.pool = PoolKind::kMean;
  r.special_tokens(m, -1, -1, -1);
  if (seq2seq && m.decoder_start < 0 && !m.eos.empty()) m.decoder_start = m.eos[0];
  // The variance of torch.nn.LSTM's initial weights.
  if (!r.has("initializer_range"))
    m.initializer_range = 1.0f / std::sqrt(3.0f * static_cast<float>(m.main().width));
  return r.finish(m);
}

std::vector<NameRule> recurrent_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = {{"head.lm.weight", "lm_head.weight"},
                                 {"head.lm.bias", "lm_head.bias"},
                                 {"head.classifier", "classifier"}};
  const bool seq2seq = spec.encoder && spec.decoder;
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string file_stack = "model." + (seq2seq ? stack + "." : ""), layer = stack + ".layers.{}.";
    if (stack == "encoder" ? spec.encoder.has_value() : !seq2seq)
      rules.emplace_back(stack + ".embed.tokens", seq2seq ? "model.embedding" : file_stack + "embedding");
    for (const std::string direction : {"forward", "backward"})
      for (const std::string part : {"ih", "hh"})
        for (const std::string kind : {"weight", "bias"})
          rules.emplace_back(layer + direction + "." + part + "." + kind,
                             file_stack + spec.family + "." + kind + "_" + part + "_l{}" +
                                 (direction == "backward" ? "_reverse" : ""));
    rules.emplace_back(layer + "forward.context", file_stack + "context_l{}");
    for (const std::string state : {"h", "c"})
      rules.emplace_back(layer + "bridge_" + state, file_stack + "bridge_" + state + "_l{}");
    for (const std::string part : {"query", "key", "score", "combine", "centre", "centre_score"})
      rules.emplace_back(layer + "align." + part, file_stack + "attention." + part);
  }
  return rules;
}

Result<ModelSpec> read_rnn(const Config& c) { return read_recurrent(c, CellKind::kRnn, "rnn", "Rnn"); }
Result<ModelSpec> read_lstm(const Config& c) { return read_recurrent(c, CellKind::kLstm, "lstm", "Lstm"); }
Result<ModelSpec> read_gru(const Config& c) { return read_recurrent(c, CellKind::kGru, "gru", "Gru"); }

}  // namespace

const Family kRnn = {.type = "rnn", .prefix = "model.", .read = read_rnn, .names = recurrent_names};
const Family kLstm = {.type = "lstm", .prefix = "model.", .read = read_lstm, .names = recurrent_names};
const Family kGru = {.type = "gru", .prefix = "model.", .read = read_gru, .names = recurrent_names};

}  // namespace makar
