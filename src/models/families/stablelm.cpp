// StableLM (Bellagente et al., 2024): Llama with LayerNorm, partial rotary positions and optional
// query-key-value biases; the 12B model runs attention and feed-forward in parallel.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_stablelm(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 4096, d.partial = 0.25;
  ModelSpec m = read_llama_like(r, "stablelm", "StableLm", d);
  m.decoder->norm = {.kind = NormSpec::Kind::kLayer, .eps = r.number_or("layer_norm_eps", 1e-5, 0, 1)};
  for (BlockSpec& b : m.decoder->blocks) {
    b.parallel = b.shared_norm = r.flag_or("use_parallel_residual", false);
    b.attention.qkv_bias = r.flag_or("use_qkv_bias", false);
    b.attention.out_bias = b.feed_forward.bias = false;
    b.dropout = r.dropout_or("hidden_dropout", 0.0);
  }
  r.special_tokens(m, 0, 0, -1);
  m.decoder->embedding.padding = m.pad;
  r.unsupported(r.flag_or("qk_layernorm", false), "qk_layernorm", "is not supported");
  return r.finish(m);
}

const GgufSection kStablelmGguf = {
    .architecture = "stablelm",
    .model = "StableLmForCausalLM",
    .keys =
        gguf::hf_sizes() +
        GgufKeys{{"attention.head_count_kv", "num_key_value_heads", GgufKey::kInteger, false, gguf::kv_heads},
                 {"use_parallel_residual", "use_parallel_residual", GgufKey::kFlag, false,
                  [](const ModelSpec& m) { return m.main().first().parallel ? 1.0 : 0.0; }}} +
        gguf::norm_key("layer_norm_eps") + gguf::rope_keys(),
    .implied = {{"hidden_act", "silu"}, {"qk_layernorm", false}},
    .names = gguf::plain_names,
    .marks = {{"use_qkv_bias", "blk.0.attn_q.bias", true, false}},
    .rotary_share = "partial_rotary_factor"};

}  // namespace

const Family kStableLm = {.type = "stablelm",
                          .prefix = "model.",
                          .read = read_stablelm,
                          .names = llama_names,
                          .ignored = llama_ignored(),
                          .gguf = &kStablelmGguf};

}  // namespace makar
