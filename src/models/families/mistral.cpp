// Mistral (Jiang et al., 2023): Llama with a sliding window in every layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 131072;
  ModelSpec m = read_llama_like(r, "mistral", "Mistral", d);
  for (BlockSpec& b : m.decoder->blocks) b.attention.qkv_bias = b.attention.out_bias = false;
  r.windows(*m.decoder, r.integer_or("sliding_window", 0, 0, int64_t{1} << 40), "all");
  return r.finish(m);
}

}  // namespace

const Family kMistral = {"mistral",   "model.", read,
                         llama_names, nullptr,  {".rotary_emb.inv_freq", "lm_head.weight"}};

}  // namespace makar
