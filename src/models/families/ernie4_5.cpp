// ERNIE 4.5 (Baidu, 2025), the dense models: Llama with interleaved rotary positions.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_ernie4_5(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.theta = 500000.0, d.eps = 1e-5, d.max_positions = 131072, d.head_dim = 128;
  ModelSpec m = read_llama_like(r, "ernie4_5", "Ernie4_5", d);
  const bool biases = r.flag_or("use_bias", false);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qkv_bias = b.attention.out_bias = b.feed_forward.bias = biases;
    b.attention.rope->interleaved = true;
  }
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  r.special_tokens(m, 1, 2, 0);
  m.decoder->embedding.padding = m.pad;
  return r.finish(m);
}

const GgufSection kErnie45Gguf = {.architecture = "ernie4_5",
                                  .model = "Ernie4_5ForCausalLM",
                                  .keys = gguf::llama_keys(),
                                  .implied = {{"hidden_act", "silu"}, {"use_bias", false}},
                                  .names = gguf::plain_names};

}  // namespace

const Family kErnie45 = {.type = "ernie4_5",
                         .prefix = "model.",
                         .read = read_ernie4_5,
                         .names = llama_names,
                         .ignored = llama_ignored(),
                         .gguf = &kErnie45Gguf};

}  // namespace makar
