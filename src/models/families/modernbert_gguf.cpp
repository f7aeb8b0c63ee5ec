// The GGUF section of ModernBERT.
#include "models/families/pages.h"

namespace makar {
namespace {

std::vector<NameRule> modernbert_gguf_names(const ModelSpec&) {
  const std::string layer = "encoder.layers.{}.", file_layer = "blk.{}.";
  return {{"encoder.embed.tokens", "token_embd"},
          {"encoder.embed.norm", "token_embd_norm"},
          {layer + "norm1", file_layer + "attn_norm"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, file_layer + "attn_qkv", 1},
          {layer + "attn.o", file_layer + "attn_output"},
          {layer + "norm2", file_layer + "ffn_norm"},
          {{layer + "ffn.gate", layer + "ffn.up"}, file_layer + "ffn_up", 1},
          {layer + "ffn.down", file_layer + "ffn_down"},
          {"encoder.norm", "output_norm"}};
}

double modernbert_local_theta(const ModelSpec& m) {
  for (const BlockSpec& b : m.main().blocks)
    if (b.attention.window > 0) return b.attention.rope->theta;
  return -1;
}
// The period of the full layers, starting with the first layer; 0 if they have none.
int64_t modernbert_period(const ModelSpec& m) {
  const auto& blocks = m.main().blocks;
  size_t period = 1;
  while (period < blocks.size() && blocks[period].attention.window > 0) ++period;
  for (size_t i = 0; i < blocks.size(); ++i)
    if ((blocks[i].attention.window > 0) != (i % period != 0)) return 0;
  return static_cast<int64_t>(period);
}

const GgufSection kModernBertGguf = {
    .architecture = "modern-bert",
    .model = "ModernBertModel",
    .keys =
        gguf::hf_sizes() + gguf::norm_key("norm_eps") +
        GgufKeys{{"attention.causal", "", GgufKey::kFlag, false, [](const ModelSpec&) { return 0.0; }},
                 {"attention.sliding_window", "local_attention", GgufKey::kInteger, false,
                  [](const ModelSpec& m) { return gguf::window(m) < 0 ? -1.0 : 2 * (gguf::window(m) - 1); }},
                 {"attention.sliding_window_pattern", "global_attn_every_n_layers", GgufKey::kInteger, false,
                  [](const ModelSpec& m) { return static_cast<double>(modernbert_period(m)); }},
                 {"rope.dimension_count", "", GgufKey::kInteger, false, gguf::rotary},
                 {"rope.freq_base", "global_rope_theta", GgufKey::kReal, false, gguf::theta},
                 {"rope.freq_base_swa", "local_rope_theta", GgufKey::kReal, false, modernbert_local_theta},
                 {"pooling_type", "", GgufKey::kInteger, false, [](const ModelSpec&) { return 1.0; }}},
    .implied = {{"hidden_activation", "gelu"},
                {"attention_bias", false},
                {"mlp_bias", false},
                {"norm_bias", false}},
    .names = modernbert_gguf_names,
    .body_only = true,
    .derive =
        [](const Gguf& file, Json& config) {
          if (const auto act = file.fields().text("modern-bert.hidden_act"))
            config["hidden_activation"] = *act;
        },
    .unsupported = [](const ModelSpec& m) -> std::string {
      return modernbert_period(m) > 0 ? "" : "another pattern of sliding layers";
    }};

}  // namespace

const GgufSection& modernbert_gguf() { return kModernBertGguf; }

}  // namespace makar
