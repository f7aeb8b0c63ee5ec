// Granite 3 (IBM, 2024): Llama with factors on embeddings, scores, residuals and logits.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_granite(const Config& config) {
  Reader r(config);
  ModelSpec m = read_llama_like(r, "granite", "Granite", {});
  m.decoder->embedding.scale = r.number_or("embedding_multiplier", 1.0, 1e-9, 1e9);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.scale = r.number_or("attention_multiplier", 1.0, 1e-9, 1e9);
    b.residual_scale = r.number_or("residual_multiplier", 1.0, 1e-9, 1e9);
  }
  m.head.scale = 1.0f / r.number_or("logits_scaling", 1.0, 1e-9, 1e9);
  return r.finish(m);
}

GgufKeys granite_keys() {
  using Kind = GgufKey::Kind;
  return gguf::llama_keys() +
         GgufKeys{{"logit_scale", "logits_scaling", Kind::kReal, true,
                   [](const ModelSpec& m) { return 1.0 / static_cast<double>(m.head.scale); }},
                  {"residual_scale", "residual_multiplier", Kind::kReal, false,
                   [](const ModelSpec& m) { return static_cast<double>(m.main().first().residual_scale); }},
                  {"embedding_scale", "embedding_multiplier", Kind::kReal, false,
                   [](const ModelSpec& m) { return static_cast<double>(m.main().embedding.scale); }},
                  {"attention.scale", "attention_multiplier", Kind::kReal, false,
                   [](const ModelSpec& m) { return static_cast<double>(m.main().first().attention.scale); }}};
}

const GgufSection kGraniteGguf = {
    .architecture = "granite",
    .model = "GraniteForCausalLM",
    .keys = granite_keys(),
    .implied = {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}},
    .names = gguf::paired_names};

}  // namespace

const Family kGranite = {.type = "granite",
                         .prefix = "model.",
                         .read = read_granite,
                         .names = llama_names,
                         .ignored = llama_ignored(),
                         .gguf = &kGraniteGguf};

}  // namespace makar
