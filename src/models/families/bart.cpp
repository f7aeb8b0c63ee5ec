// BART (Lewis et al., 2019), Marian (Junczys-Dowmunt et al., 2018), mBART (Liu et al., 2020), M2M-100 and
// NLLB (Fan et al., 2020) and Pegasus (Zhang et al., 2020): encoder-decoders with biases. They differ in
// where the norms are and in the kind of positions.
#include "models/families/pages.h"

namespace makar {
namespace {

struct Kind {
  const char *family, *model;
  bool pre_norm;        // norms before the sublayers and at the end of a stack
  bool embedding_norm;  // a norm after the embeddings
  PositionKind positions;
  bool logits_bias;  // a fixed bias of the logits in the files
};

StackSpec read_stack(Reader& r, const std::string& name, const Kind& kind) {
  const bool decoder = name == "decoder";
  StackSpec s;
  s.name = name;
  s.width = r.width("d_model");
  const int64_t layers = r.layers(Config::Keys(name + "_layers"));
  s.final_norm = kind.pre_norm;
  BlockSpec b;
  b.place = kind.pre_norm ? NormPlace::kPre : NormPlace::kPost;
  AttentionSpec& a = b.attention;
  a.causal = decoder;
  a.heads = a.kv_heads = r.heads(Config::Keys(name + "_attention_heads"));
  a.head_dim = r.head_dim(s.width, a.heads, Config::Keys(name + "_attention_heads"));
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  a.qkv_bias = a.out_bias = true;
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  if (decoder) {
    b.cross = a;
    b.cross->causal = false;
  }
  b.feed_forward.width = r.integer(Config::Keys(name + "_ffn_dim"), 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation("activation_function", "gelu");
  b.feed_forward.bias = true;
  b.dropout = s.embedding.dropout = r.dropout_or("dropout", 0.1);
  EmbeddingSpec& e = s.embedding;
  e.vocab = r.vocab("vocab_size");
  e.width = s.width;
  if (r.flag_or("scale_embedding", false)) e.scale = std::sqrt(static_cast<float>(s.width));
  // The tables of learned positions start two rows early; fairseq's sinusoids after the padding index.
  e.positions = kind.positions;
  e.position_offset = kind.positions == PositionKind::kLearned ? 2
                      : kind.positions == PositionKind::kFairseq
                          ? r.integer_or("pad_token_id", 1, 0, 1024) + 1
                          : 0;
  e.count_positions = kind.positions == PositionKind::kFairseq;
  e.max_positions = r.positions_or("max_position_embeddings", 1024) + e.position_offset;
  e.norm = kind.embedding_norm;
  s.blocks.assign(static_cast<size_t>(layers), b);
  return s;
}

ModelSpec read_common(Reader& r, const Kind& kind, int64_t bos, int64_t eos, int64_t pad) {
  ModelSpec m;
  m.family = kind.family;
  m.encoder = read_stack(r, "encoder", kind);
  m.decoder = read_stack(r, "decoder", kind);
  m.vocab = m.encoder->embedding.vocab;
  m.max_positions = r.positions_or("max_position_embeddings", 1024);
  m.head.kind = r.head(kind.model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  m.head.lm_offset = kind.logits_bias && m.head.kind == HeadKind::kCausalLm;
  r.unsupported(m.head.kind != HeadKind::kCausalLm && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported");
  r.special_tokens(m, bos, eos, pad);
  m.encoder->embedding.padding = m.decoder->embedding.padding = m.pad;
  return m;
}

Result<ModelSpec> read_bart(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, {"bart", "Bart", false, true, PositionKind::kLearned, true}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

// The target language's token starts a translation: decoder_start_token_id, or the first forced token.
Result<ModelSpec> read_mbart(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, {"mbart", "MBart", true, true, PositionKind::kLearned, true}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

Result<ModelSpec> read_m2m(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, {"m2m_100", "M2M100", true, false, PositionKind::kFairseq, false}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

Result<ModelSpec> read_pegasus(const Config& config) {
  Reader r(config);
  ModelSpec m =
      read_common(r, {"pegasus", "Pegasus", true, false, PositionKind::kSinusoidal, true}, -1, 1, 0);
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  return r.finish(m);
}

Result<ModelSpec> read_marian(const Config& config) {
  Reader r(config);
  ModelSpec m =
      read_common(r, {"marian", "Marian", false, false, PositionKind::kSinusoidal, true}, -1, 0, 58100);
  m.shared_tokens = r.flag_or("share_encoder_decoder_embeddings", true);
  if (!m.shared_tokens) {
    m.decoder->embedding.vocab = r.integer_or("decoder_vocab_size", m.vocab, 1, int64_t{1} << 23);
    m.vocab = m.decoder->embedding.vocab;
  }
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  return r.finish(m);
}

std::vector<NameRule> names(const ModelSpec& spec) {
  std::vector<NameRule> rules;
  if (spec.shared_tokens) {
    rules.emplace_back("encoder.embed.tokens", "model.shared");
  } else {
    rules.emplace_back("encoder.embed.tokens", "model.encoder.embed_tokens");
    rules.emplace_back("decoder.embed.tokens", "model.decoder.embed_tokens");
  }
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string ours = stack + ".layers.{}.", theirs = "model." + stack + ".layers.{}.";
    const auto attention = [&](const std::string& part, const std::string& name, const std::string& norm) {
      for (const char* p : {"q", "k", "v"})
        rules.emplace_back(ours + part + "." + p, theirs + name + "." + p + "_proj");
      rules.emplace_back(ours + part + ".o", theirs + name + ".out_proj");
      rules.emplace_back(ours + norm, theirs + name + "_layer_norm");
    };
    rules.emplace_back(stack + ".embed.positions", "model." + stack + ".embed_positions");
    rules.emplace_back(stack + ".embed.norm", "model." + stack + ".layernorm_embedding");
    attention("attn", "self_attn", "norm1");
    if (stack == "decoder") attention("cross", "encoder_attn", "norm_cross");
    rules.emplace_back(ours + "ffn.up", theirs + "fc1");
    rules.emplace_back(ours + "ffn.down", theirs + "fc2");
    rules.emplace_back(ours + "norm2", theirs + "final_layer_norm");
    rules.emplace_back(stack + ".norm", "model." + stack + ".layer_norm");
  }
  rules.emplace_back("head.lm.bias", "final_logits_bias");
  rules.emplace_back("head.lm.weight", "lm_head.weight");
  return rules;
}

Family make(const char* type, Result<ModelSpec> (*read)(const Config&)) {
  return {.type = type,
          .prefix = "model.",
          .read = read,
          .names = names,
          .ignored = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                      "embed_positions.weights"}};
}

Family make_marian() {
  Family family = make("marian", read_marian);
  family.ignored.push_back("model.shared.weight");
  return family;
}

}  // namespace

const Family kBart = make("bart", read_bart);
const Family kMbart = make("mbart", read_mbart);
const Family kM2m100 = make("m2m_100", read_m2m);
const Family kPegasus = make("pegasus", read_pegasus);
const Family kMarian = make_marian();

}  // namespace makar
