// Qwen2 and Qwen3 (Yang et al., 2024, 2025): Llama with query-key-value biases (Qwen2), or with per-head
// norms of queries and keys (Qwen3).
#include "models/families/pages.h"

namespace makar {

ModelSpec read_qwen_like(Reader& r, const char* family, const char* model, bool qwen3) {
  LlamaDefaults d;
  d.max_positions = 32768;
  if (qwen3) d.head_dim = 128;
  ModelSpec m = read_llama_like(r, family, model, d);
  StackSpec& s = *m.decoder;
  const bool slides = r.flag_or("use_sliding_window", false);
  const int64_t window = slides ? r.window_or("sliding_window", 4096) : 0;
  r.windows(s, window, 1);
  if (slides && !r.has("layer_types"))  // the older rule: full attention in the first layers
    for (int64_t i = r.integer_or("max_window_layers", 28, 0, 4096); i < s.layers(); ++i)
      s.blocks[static_cast<size_t>(i)].attention.window = window;
  for (BlockSpec& b : s.blocks) {
    if (qwen3)
      b.attention.qk_norm = QkNorm::kHead;
    else
      b.attention.qkv_bias = r.flag_or("qkv_bias", true), b.attention.out_bias = false;
  }
  return m;
}

namespace {

Result<ModelSpec> read_qwen2(const Config& config) {
  Reader r(config);
  return r.finish(read_qwen_like(r, "qwen2", "Qwen2", false));
}

Result<ModelSpec> read_qwen3(const Config& config) {
  Reader r(config);
  return r.finish(read_qwen_like(r, "qwen3", "Qwen3", true));
}

const GgufSection kQwen2Gguf = {.architecture = "qwen2",
                                .model = "Qwen2ForCausalLM",
                                .keys = gguf::llama_keys(),
                                .implied = {{"hidden_act", "silu"}, {"use_sliding_window", false}},
                                .names = gguf::plain_names};
const GgufSection kQwen3Gguf = {
    .architecture = "qwen3",
    .model = "Qwen3ForCausalLM",
    .keys = gguf::llama_keys(),
    .implied = {{"hidden_act", "silu"}, {"use_sliding_window", false}, {"attention_bias", false}},
    .names = gguf::plain_names};

}  // namespace

const Family kQwen2 = {.type = "qwen2",
                       .prefix = "model.",
                       .read = read_qwen2,
                       .names = llama_names,
                       .ignored = llama_ignored(),
                       .gguf = &kQwen2Gguf};
const Family kQwen3 = {.type = "qwen3",
                       .prefix = "model.",
                       .read = read_qwen3,
                       .names = llama_names,
                       .ignored = llama_ignored(),
                       .gguf = &kQwen3Gguf};

}  // namespace makar
