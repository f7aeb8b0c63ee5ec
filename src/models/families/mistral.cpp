// Mistral (Jiang et al., 2023): Llama with a sliding window in every layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_mistral(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 131072;
  ModelSpec m = read_llama_like(r, "mistral", "Mistral", d);
  for (BlockSpec& b : m.decoder->blocks) b.attention.qkv_bias = b.attention.out_bias = false;
  r.windows(*m.decoder, r.window_or("sliding_window", 0), 0);
  return r.finish(m);
}

const GgufSection kMistralGguf = {.architecture = "llama",
                                  .model = "MistralForCausalLM",
                                  .keys = gguf::llama_keys() + gguf::window_key(),
                                  .implied = {{"hidden_act", "silu"}},
                                  .names = gguf::paired_names,
                                  .matches = [](const GgufFields& f) {
                                    return f.integer("llama.attention.sliding_window").value_or(0) > 0 &&
                                           f.integer("llama.expert_count").value_or(0) <= 0;
                                  }};

}  // namespace

const Family kMistral = {.type = "mistral",
                         .prefix = "model.",
                         .read = read_mistral,
                         .names = llama_names,
                         .ignored = llama_ignored(),
                         .gguf = &kMistralGguf};

}  // namespace makar
