// GLM-4 (Team GLM, 2024): norms on both sides of each sublayer, half of each head rotated in adjacent pairs,
// query-key-value biases.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_glm4(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.eps = 1.5625e-7, d.max_positions = 131072, d.head_dim = 128, d.rotary_share = 0.5;
  ModelSpec m = read_llama_like(r, "glm4", "Glm4", d);
  for (BlockSpec& b : m.decoder->blocks) {
    b.norm_position = NormPosition::kSandwich;
    b.attention.out_bias = b.feed_forward.bias = false;
    b.attention.rope->interleaved = true;
  }
  return r.finish(m);
}

std::vector<NameRule> glm4_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return with_names(llama_names(spec),
                    {{layer + "norm1_after", file_layer + "post_self_attn_layernorm"},
                     {layer + "norm2_after", file_layer + "post_mlp_layernorm"},
                     {{layer + "ffn.gate", layer + "ffn.up"}, file_layer + "mlp.gate_up_proj", 1}});
}

std::vector<NameRule> glm4_gguf_names(const ModelSpec& spec) {
  const std::string ffn = "decoder.layers.{}.ffn.";
  return with_names(gguf::plain_names(spec), {{{ffn + "gate", ffn + "up"}, "blk.{}.ffn_up", 1}});
}

const GgufSection kGlm4Gguf = {.architecture = "glm4",
                               .model = "Glm4ForCausalLM",
                               .keys = gguf::llama_keys(),
                               .implied = {{"hidden_act", "silu"}},
                               .names = glm4_gguf_names,
                               .fields_by_tensor = {{"attention_bias", "blk.0.attn_q.bias", true, false}},
                               .rotary_share = "partial_rotary_factor"};

}  // namespace

const Family kGlm4 = {.type = "glm4",
                      .prefix = "model.",
                      .read = read_glm4,
                      .names = glm4_names,
                      .ignored = llama_ignored(),
                      .gguf = &kGlm4Gguf};

}  // namespace makar
