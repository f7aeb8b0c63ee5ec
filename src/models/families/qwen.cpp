// Qwen2 and Qwen3 (Yang et al., 2024, 2025): Llama with query-key-value biases (Qwen2), or with per-head
// norms of queries and keys (Qwen3).
#include "models/families/pages.h"

namespace makar {
namespace {

ModelSpec read_common(Reader& r, const char* family, const char* model) {
  LlamaDefaults d;
  d.max_positions = 32768;
  ModelSpec m = read_llama_like(r, family, model, d);
  StackSpec& s = *m.decoder;
  const bool slides = r.flag_or("use_sliding_window", false);
  const int64_t window = slides ? r.integer_or("sliding_window", 4096, 0, int64_t{1} << 40) : 0;
  r.windows(s, window, "none");
  if (slides && !r.has("layer_types"))  // the older rule: full attention in the first layers
    for (int64_t i = r.integer_or("max_window_layers", 28, 0, 4096); i < s.layers(); ++i)
      s.blocks[static_cast<size_t>(i)].attention.window = window;
  return m;
}

Result<ModelSpec> read2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "qwen2", "Qwen2");
  for (BlockSpec& b : m.decoder->blocks) b.attention.qkv_bias = true, b.attention.out_bias = false;
  return r.finish(m);
}

Result<ModelSpec> read3(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "qwen3", "Qwen3");
  for (BlockSpec& b : m.decoder->blocks) {
    AttentionSpec& a = b.attention;
    a.qk_norm = true;
    if (r.has("head_dim")) continue;
    a.head_dim = 128;
    a.scale = 1.0f / std::sqrt(128.0f);
    a.rope = r.rope(a.head_dim, 10000.0, m.max_positions);
  }
  return r.finish(m);
}

}  // namespace

const Family kQwen2 = {"qwen2",     "model.", read2,
                       llama_names, nullptr,  {".rotary_emb.inv_freq", "lm_head.weight"}};
const Family kQwen3 = {"qwen3",     "model.", read3,
                       llama_names, nullptr,  {".rotary_emb.inv_freq", "lm_head.weight"}};

}  // namespace makar
