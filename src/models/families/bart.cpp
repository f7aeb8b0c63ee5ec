// BART (Lewis et al., 2019) and Marian (Junczys-Dowmunt et al., 2018): post-norm encoder-decoders with
// biases; BART has learned positions and a norm after the embeddings, Marian the sinusoids of the original
// Transformer.
#include "models/families/pages.h"

namespace makar {
namespace {

StackSpec read_stack(Reader& r, const std::string& name, bool marian) {
  const bool decoder = name == "decoder";
  StackSpec s;
  s.name = name;
  s.width = r.width("d_model");
  const int64_t layers = r.layers(Config::Keys(name + "_layers"));
  s.final_norm = false;
  BlockSpec b;
  b.place = NormPlace::kPost;
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
  const int64_t positions = r.positions_or("max_position_embeddings", 1024);
  e.positions = marian ? PositionKind::kSinusoidal : PositionKind::kLearned;
  e.max_positions = marian ? positions : positions + 2;
  e.position_offset = marian ? 0 : 2;
  e.norm = !marian;
  s.blocks.assign(static_cast<size_t>(layers), b);
  return s;
}

ModelSpec read_common(Reader& r, const char* family, const char* model, bool marian) {
  ModelSpec m;
  m.family = family;
  m.encoder = read_stack(r, "encoder", marian);
  m.decoder = read_stack(r, "decoder", marian);
  m.vocab = m.encoder->embedding.vocab;
  m.max_positions = r.positions_or("max_position_embeddings", 1024);
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  m.head.lm_offset = m.head.kind == HeadKind::kCausalLm;
  r.unsupported(m.head.kind != HeadKind::kCausalLm && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported");
  return m;
}

Result<ModelSpec> read_bart(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "bart", "Bart", false);
  r.special_tokens(m, 0, 2, 1);
  m.encoder->embedding.padding = m.decoder->embedding.padding = m.pad;
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

Result<ModelSpec> read_marian(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "marian", "Marian", true);
  m.shared_tokens = r.flag_or("share_encoder_decoder_embeddings", true);
  if (!m.shared_tokens) {
    m.decoder->embedding.vocab = r.integer_or("decoder_vocab_size", m.vocab, 1, int64_t{1} << 23);
    m.vocab = m.decoder->embedding.vocab;
  }
  r.special_tokens(m, -1, 0, 58100);
  m.encoder->embedding.padding = m.decoder->embedding.padding = m.pad;
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
  }
  rules.emplace_back("head.lm.bias", "final_logits_bias");
  rules.emplace_back("head.lm.weight", "lm_head.weight");
  return rules;
}

const std::vector<std::string> kIgnored = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                                           "lm_head.weight", "model.shared.weight"};

}  // namespace

const Family kBart = {
    "bart", "model.", read_bart,
    names,  nullptr,  {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}};
const Family kMarian = {"marian", "model.", read_marian, names, nullptr, kIgnored};

}  // namespace makar
