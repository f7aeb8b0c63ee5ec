// BART (Lewis et al., 2019): an encoder-decoder with biases and learned positions, and what mBART, Marian,
// M2M-100 and Pegasus share with it. They differ in where the norms are and in the kind of positions.
#include "models/families/pages.h"

namespace makar {
namespace {

StackSpec read_bart_stack(Reader& r, const std::string& name, const BartKind& kind) {
  const bool decoder = name == "decoder";
  StackSpec s;
  s.name = name;
  s.width = r.width("d_model");
  const int64_t layers = r.layers(Config::Keys(name + "_layers"));
  s.final_norm = kind.pre_norm;
  BlockSpec b;
  b.norm_position = kind.pre_norm ? NormPosition::kPre : NormPosition::kPost;
  AttentionSpec& a = b.attention;
  a.causal = decoder;
  r.full_heads(a, s.width, Config::Keys(name + "_attention_heads"));
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
  // Learned position tables begin with two unused rows; fairseq's sinusoids start after the padding index.
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

}  // namespace

ModelSpec read_bart_like(Reader& r, const BartKind& kind, int64_t bos, int64_t eos, int64_t pad) {
  ModelSpec m;
  m.family = kind.family;
  m.encoder = read_bart_stack(r, "encoder", kind);
  m.decoder = read_bart_stack(r, "decoder", kind);
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

std::vector<NameRule> fairseq_layer_names(const std::string& layer, const std::string& file_layer) {
  return {{layer + "norm1", file_layer + "self_attn_layer_norm"},
          {layer + "attn.q", file_layer + "self_attn.q_proj"},
          {layer + "attn.k", file_layer + "self_attn.k_proj"},
          {layer + "attn.v", file_layer + "self_attn.v_proj"},
          {layer + "attn.o", file_layer + "self_attn.out_proj"},
          {layer + "norm_cross", file_layer + "encoder_attn_layer_norm"},
          {layer + "cross.q", file_layer + "encoder_attn.q_proj"},
          {layer + "cross.k", file_layer + "encoder_attn.k_proj"},
          {layer + "cross.v", file_layer + "encoder_attn.v_proj"},
          {layer + "cross.o", file_layer + "encoder_attn.out_proj"},
          {layer + "norm2", file_layer + "final_layer_norm"},
          {layer + "ffn.up", file_layer + "fc1"},
          {layer + "ffn.down", file_layer + "fc2"}};
}

std::vector<NameRule> bart_names(const ModelSpec&) {
  std::vector<NameRule> rules = {{"encoder.embed.tokens", "model.shared"},
                                 {"head.lm.bias", "final_logits_bias"},
                                 {"head.lm.weight", "lm_head.weight"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string file_stack = "model." + stack + ".";
    rules =
        with_names(std::move(rules), fairseq_layer_names(stack + ".layers.{}.", file_stack + "layers.{}."));
    rules.emplace_back(stack + ".embed.positions", file_stack + "embed_positions");
    rules.emplace_back(stack + ".embed.norm", file_stack + "layernorm_embedding");
    rules.emplace_back(stack + ".norm", file_stack + "layer_norm");
  }
  return rules;
}

Family bart_family(const char* type, Result<ModelSpec> (*read)(const Config&), NameTable names) {
  return {.type = type,
          .prefix = "model.",
          .read = read,
          .names = names,
          .ignored = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                      "embed_positions.weights"}};
}

namespace {

Result<ModelSpec> read_bart(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bart_like(r, {"bart", "Bart", false, true, PositionKind::kLearned, true}, 0, 2, 1);
  if (m.decoder_start < 0) m.decoder_start = 2;
  return r.finish(m);
}

}  // namespace

const Family kBart = bart_family("bart", read_bart, bart_names);

}  // namespace makar
