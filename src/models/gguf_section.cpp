#include "models/gguf_section.h"

#include <algorithm>

namespace makar {

GgufKeys operator+(GgufKeys a, const GgufKeys& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

namespace gguf {

using Kind = GgufKey::Kind;

static const AttentionSpec& attention(const ModelSpec& m) { return m.main().first().attention; }
double width(const ModelSpec& m) { return static_cast<double>(m.main().width); }
double heads(const ModelSpec& m) { return static_cast<double>(attention(m).heads); }
double kv_heads(const ModelSpec& m) { return static_cast<double>(attention(m).kv_heads); }
double head_dim(const ModelSpec& m) { return static_cast<double>(attention(m).head_dim); }
double eps(const ModelSpec& m) { return m.main().norm.eps; }
const AttentionSpec& rotary_attention(const ModelSpec& m) {
  const AttentionSpec* first_rotary = nullptr;
  for (const BlockSpec& b : m.main().blocks) {
    if (!b.attention.rope) continue;
    if (b.attention.window == 0) return b.attention;
    if (!first_rotary) first_rotary = &b.attention;
  }
  return first_rotary ? *first_rotary : attention(m);
}
double rotary(const ModelSpec& m) {
  const auto& rope = rotary_attention(m).rope;
  return rope ? static_cast<double>(rope->rotary) : -1;
}
double theta(const ModelSpec& m) {
  const auto& rope = rotary_attention(m).rope;
  return rope ? rope->theta : -1;
}
bool slides_with_period(const ModelSpec& m, int64_t period) {
  int64_t layer = 0;
  for (const BlockSpec& b : m.main().blocks)
    if ((b.attention.window > 0) == (++layer % period == 0)) return false;
  return true;
}
double window(const ModelSpec& m) {
  double widest = -1;
  for (const BlockSpec& b : m.main().blocks)
    if (b.attention.window > 0) widest = std::max(widest, static_cast<double>(b.attention.window));
  return widest;
}
double feed_forward(const ModelSpec& m) { return static_cast<double>(m.main().first().feed_forward.width); }
double experts(const ModelSpec& m) { return static_cast<double>(m.main().routed()->experts); }
double expert_width(const ModelSpec& m) { return static_cast<double>(m.main().routed()->width); }
double experts_used(const ModelSpec& m) { return static_cast<double>(m.main().routed()->experts_per_token); }

namespace {

// Written for models without a limit, because readers require the key.
constexpr int64_t kDefaultPositions = 2048;

double vocab(const ModelSpec& m) { return static_cast<double>(m.vocab); }
double layers(const ModelSpec& m) {
  return static_cast<double>(m.encoder && m.decoder ? m.encoder->layers() : m.main().layers());
}
double positions(const ModelSpec& m) {
  return static_cast<double>(m.max_positions > 0 ? m.max_positions : kDefaultPositions);
}

}  // namespace

GgufKeys sizes(const char* width_field, const char* layers_field, const char* heads_field,
               const char* feed_forward_field, const char* positions_field) {
  return {{"vocab_size", "", Kind::kInteger, false, vocab},
          {"context_length", positions_field, Kind::kInteger, true, positions},
          {"embedding_length", width_field, Kind::kInteger, true, width},
          {"block_count", layers_field, Kind::kInteger, true, layers},
          {"feed_forward_length", feed_forward_field, Kind::kInteger, true, feed_forward},
          {"attention.head_count", heads_field, Kind::kInteger, true, heads}};
}

GgufKeys hf_sizes() {
  return sizes("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
               "max_position_embeddings");
}

GgufKeys rope_keys() {
  return {{"rope.dimension_count", "", Kind::kInteger, false, rotary},
          {"rope.freq_base", "rope_theta", Kind::kReal, false, theta}};
}

GgufKeys llama_keys() {
  return hf_sizes() +
         GgufKeys{{"attention.head_count_kv", "num_key_value_heads", Kind::kInteger, false, kv_heads},
                  {"attention.key_length", "head_dim", Kind::kInteger, false, head_dim},
                  {"attention.value_length", "", Kind::kInteger, false, head_dim},
                  {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::kReal, true, eps}} +
         rope_keys();
}

GgufKeys window_key() {
  return {{"attention.sliding_window", "sliding_window", Kind::kInteger, false, window}};
}

GgufKeys expert_keys(const char* count_field) {
  return {{"expert_count", count_field, Kind::kInteger, true, experts},
          {"expert_used_count", "num_experts_per_tok", Kind::kInteger, true, experts_used}};
}

GgufKeys norm_key(const char* field) {
  return {{"attention.layer_norm_epsilon", field, Kind::kReal, true, eps}};
}

GgufKeys rms_norm_key(const char* field) {
  return {{"attention.layer_norm_rms_epsilon", field, Kind::kReal, true, eps}};
}

GgufKeys kv_heads_key() {
  return {{"attention.head_count_kv", "num_key_value_heads", Kind::kInteger, false, kv_heads}};
}

GgufKeys alibi_key() {
  return {{"attention.max_alibi_bias", "", Kind::kReal, false, [](const ModelSpec&) { return 8.0; }}};
}

std::vector<NameRule> decoder_names(const ModelSpec& spec, const Names& names) {
  const std::string layer = "decoder.layers.{}.", file_layer = "blk.{}.";
  const auto norm = [&](const std::string& parameter, const std::string& tensor) {
    return NameRule(parameter, tensor).plus(names.norm_offset);
  };
  std::vector<NameRule> rules = {{"decoder.embed.tokens", "token_embd"},
                                 {"decoder.embed.positions", "position_embd"},
                                 {"decoder.embed.norm", "token_embd_norm"},
                                 norm("decoder.norm", "output_norm"),
                                 {"head.lm", "output"},
                                 norm(layer + "norm1", file_layer + "attn_norm"),
                                 {layer + "attn.o", file_layer + "attn_output"},
                                 norm(layer + "attn.q_norm", file_layer + "attn_q_norm"),
                                 norm(layer + "attn.k_norm", file_layer + "attn_k_norm"),
                                 norm(layer + "norm1_after", file_layer + "post_attention_norm"),
                                 norm(layer + "norm2", file_layer + "ffn_norm"),
                                 norm(layer + "norm2_after", file_layer + "post_ffw_norm"),
                                 {layer + "ffn.gate", file_layer + "ffn_gate"},
                                 {layer + "ffn.up", file_layer + "ffn_up"},
                                 {layer + "ffn.down", file_layer + "ffn_down"},
                                 {layer + "ffn.router", file_layer + "ffn_gate_inp"},
                                 {layer + "ffn.experts.{e}.gate", file_layer + "ffn_gate_exps"},
                                 {layer + "ffn.experts.{e}.up", file_layer + "ffn_up_exps"},
                                 {layer + "ffn.experts.{e}.down", file_layer + "ffn_down_exps"}};
  if (names.fused) {
    rules.push_back({{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, file_layer + "attn_qkv", 1});
    return rules;
  }
  const AttentionSpec& a = attention(spec);
  rules.push_back(NameRule(layer + "attn.q", file_layer + "attn_q").paired(names.paired ? a.heads : 0));
  rules.push_back(NameRule(layer + "attn.k", file_layer + "attn_k").paired(names.paired ? a.kv_heads : 0));
  rules.push_back({layer + "attn.v", file_layer + "attn_v"});
  return rules;
}

std::vector<NameRule> plain_names(const ModelSpec& m) { return decoder_names(m, {}); }
std::vector<NameRule> paired_names(const ModelSpec& m) { return decoder_names(m, {false, true, 0}); }
std::vector<NameRule> fused_names(const ModelSpec& m) { return decoder_names(m, {true, false, 0}); }

std::vector<NameRule> encoder_names(const ModelSpec& spec) {
  const std::string layer = "encoder.layers.{}.", file_layer = "blk.{}.";
  // Rows of the position table before the first position (RoBERTa's padding) are not stored.
  return {NameRule("encoder.embed.positions", "position_embd")
              .without_rows(spec.encoder->embedding.position_offset),
          {"encoder.embed.tokens", "token_embd"},
          {"encoder.embed.types", "token_types"},
          {"encoder.embed.norm", "token_embd_norm"},
          {layer + "attn.q", file_layer + "attn_q"},
          {layer + "attn.k", file_layer + "attn_k"},
          {layer + "attn.v", file_layer + "attn_v"},
          {layer + "attn.o", file_layer + "attn_output"},
          {layer + "norm1", file_layer + "attn_output_norm"},
          {layer + "ffn.up", file_layer + "ffn_up"},
          {layer + "ffn.down", file_layer + "ffn_down"},
          {layer + "norm2", file_layer + "layer_output_norm"}};
}

}  // namespace gguf
}  // namespace makar
