// The `gguf` section of T5's page: keys and tensor names of an encoder-decoder.
#include "models/families/pages.h"

namespace makar {
namespace {

std::vector<NameRule> t5_gguf_names(const ModelSpec&) {
  std::vector<NameRule> rules = {{"encoder.embed.tokens", "token_embd"}, {"head.lm", "output"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string file_stack = stack == "encoder" ? "enc." : "dec.", layer = stack + ".layers.{}.",
                      file_layer = file_stack + "blk.{}.";
    for (const char* part : {"q", "k", "v", "o"}) {
      rules.push_back({layer + "attn." + part, file_layer + "attn_" + part});
      rules.push_back({layer + "cross." + part, file_layer + "cross_attn_" + part});
    }
    for (const char* part : {"gate", "up", "down"})
      rules.push_back({layer + "ffn." + part, file_layer + "ffn_" + part});
    rules.push_back({layer + "norm1", file_layer + "attn_norm"});
    rules.push_back({layer + "norm_cross", file_layer + "cross_attn_norm"});
    rules.push_back({layer + "norm2", file_layer + "ffn_norm"});
    rules.push_back({stack + ".relative_bias", file_stack + "blk.0.attn_rel_b"});
    rules.push_back({stack + ".norm", file_stack + "output_norm"});
  }
  return rules;
}

GgufKeys t5_gguf_keys() {
  using Kind = GgufKey::Kind;
  return gguf::sizes("d_model", "num_layers", "num_heads", "d_ff", "n_positions") +
         GgufKeys{
             {"decoder_block_count", "num_decoder_layers", Kind::kInteger, false,
              [](const ModelSpec& m) { return static_cast<double>(m.decoder->layers()); }},
             {"attention.key_length", "d_kv", Kind::kInteger, true, gguf::head_dim},
             {"attention.value_length", "", Kind::kInteger, false, gguf::head_dim},
             {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::kReal, false, gguf::eps},
             {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", Kind::kReal, false, gguf::eps},
             {"attention.relative_buckets_count", "relative_attention_num_buckets", Kind::kInteger, true,
              [](const ModelSpec& m) { return static_cast<double>(m.main().first().attention.t5_buckets); }},
             {"decoder_start_token_id", "decoder_start_token_id", Kind::kInteger, false,
              [](const ModelSpec& m) { return static_cast<double>(m.decoder_start); }}};
}

std::string t5_unsupported(const ModelSpec& m) {
  const std::string projection = m.config.value("feed_forward_proj", "relu");
  return projection == "relu" || projection == "gated-gelu" ? "" : "feed_forward_proj = " + projection;
}

}  // namespace

GgufSection t5_gguf(bool (*matches)(const GgufFields&)) {
  return {.architecture = "t5",
          .model = "T5ForConditionalGeneration",
          .keys = t5_gguf_keys(),
          .implied = {{"relative_attention_max_distance", 128}},
          .names = t5_gguf_names,
          .fields_by_tensor = {{"feed_forward_proj", "enc.blk.0.ffn_gate.weight", "gated-gelu", "relu"}},
          .matches = matches,
          .unsupported = t5_unsupported};
}

}  // namespace makar
