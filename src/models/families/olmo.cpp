// OLMo 2 (OLMo Team, 2024): norms after each sublayer only, and norms of whole queries and keys. OLMoE
// (Muennighoff et al., 2024): norms before the sublayers, a mixture of experts.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_olmo2(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.eps = 1e-5;
  ModelSpec m = read_llama_like(r, "olmo2", "Olmo2", d);
  for (BlockSpec& b : m.decoder->blocks) {
    b.norm_position = NormPosition::kAfter;
    b.attention.qk_norm = QkNorm::kWhole;
  }
  r.special_tokens(m, -1, 50279, 1);
  m.decoder->embedding.padding = m.pad;
  return r.finish(m);
}

Result<ModelSpec> read_olmoe(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.eps = 1e-5, d.max_positions = 4096;
  ModelSpec m = read_llama_like(r, "olmoe", "Olmoe", d);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qk_norm = QkNorm::kWhole;
    if (r.has("clip_qkv")) b.attention.clip = r.number_or("clip_qkv", 0.0, 1e-6, 1e9);
    b.feed_forward = r.experts(b.feed_forward, "num_experts", 64, 8);
    b.feed_forward.normalized = r.flag_or("norm_topk_prob", false);
  }
  r.special_tokens(m, -1, 50279, 1);
  m.decoder->embedding.padding = m.pad;
  m.router_loss = r.router_loss(0.01);
  return r.finish(m);
}

std::vector<NameRule> olmo2_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return with_names(llama_names(spec), {{layer + "norm1_after", file_layer + "post_attention_layernorm"},
                                        {layer + "norm2_after", file_layer + "post_feedforward_layernorm"}});
}
std::vector<NameRule> olmoe_names(const ModelSpec& spec) {
  return with_names(llama_names(spec), expert_names());
}
std::vector<NameRule> olmoe_names_in_memory(const ModelSpec& spec) {
  return with_names(llama_names(spec), fused_expert_names());
}

const GgufSection kOlmo2Gguf = {.architecture = "olmo2",
                                .model = "Olmo2ForCausalLM",
                                .keys = gguf::llama_keys(),
                                .implied = {{"hidden_act", "silu"}, {"attention_bias", false}},
                                .names = gguf::plain_names};
const GgufSection kOlmoeGguf = {.architecture = "olmoe",
                                .model = "OlmoeForCausalLM",
                                .keys = gguf::llama_keys() + gguf::expert_keys("num_experts"),
                                .implied = {{"hidden_act", "silu"},
                                            {"attention_bias", false},
                                            {"norm_topk_prob", false},
                                            {"clip_qkv", nullptr}},
                                .names = gguf::plain_names};

}  // namespace

const Family kOlmo2 = {.type = "olmo2",
                       .prefix = "model.",
                       .read = read_olmo2,
                       .names = olmo2_names,
                       .ignored = llama_ignored(),
                       .gguf = &kOlmo2Gguf};
const Family kOlmoe = {.type = "olmoe",
                       .prefix = "model.",
                       .read = read_olmoe,
                       .names = olmoe_names,
                       .names_in_memory = olmoe_names_in_memory,
                       .ignored = llama_ignored(),
                       .gguf = &kOlmoeGguf};

}  // namespace makar
