// StarCoder2 (Lozhkov et al., 2024): LayerNorm, biases, a plain feed-forward, rotary positions, a sliding
// window.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_starcoder2(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 4096, d.activation = "gelu_pytorch_tanh";
  ModelSpec m = read_llama_like(r, "starcoder2", "Starcoder2", d);
  m.decoder->norm = {.kind = NormSpec::Kind::kLayer, .eps = r.number_or("norm_epsilon", 1e-5, 0, 1)};
  m.decoder->embedding.dropout = r.dropout_or("embedding_dropout", 0.0);
  const bool biases = r.flag_or("use_bias", true);
  r.windows(*m.decoder, r.window_or("sliding_window", 0), 0);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qkv_bias = b.attention.out_bias = b.feed_forward.bias = biases;
    b.feed_forward.gated = false;
    b.dropout = r.dropout_or("residual_dropout", 0.0);
  }
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  r.special_tokens(m, 50256, 50256, -1);
  m.decoder->embedding.padding = m.pad;
  return r.finish(m);
}

std::vector<NameRule> starcoder2_names(const ModelSpec& spec) {
  const std::string ffn = "decoder.layers.{}.ffn.", file_ffn = "model.layers.{}.mlp.";
  return with_names(llama_names(spec),
                    {{ffn + "up", file_ffn + "c_fc"}, {ffn + "down", file_ffn + "c_proj"}});
}

const GgufSection kStarcoder2Gguf = {.architecture = "starcoder2",
                                     .model = "Starcoder2ForCausalLM",
                                     .keys = gguf::hf_sizes() +
                                             GgufKeys{{"attention.head_count_kv", "num_key_value_heads",
                                                       GgufKey::kInteger, false, gguf::kv_heads}} +
                                             gguf::norm_key("norm_epsilon") + gguf::window_key() +
                                             gguf::rope_keys(),
                                     .implied = {{"hidden_act", "gelu_pytorch_tanh"}, {"use_bias", true}},
                                     .names = gguf::plain_names};

}  // namespace

const Family kStarcoder2 = {.type = "starcoder2",
                            .prefix = "model.",
                            .read = read_starcoder2,
                            .names = starcoder2_names,
                            .ignored = llama_ignored(),
                            .gguf = &kStarcoder2Gguf};

}  // namespace makar
