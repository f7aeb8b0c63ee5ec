// StableLM (Bellagente et al., 2024): Llama with LayerNorm, partial rotary positions and optional
// query-key-value biases; the 12B model runs attention and feed-forward in parallel.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_stablelm(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 4096, d.rotary_share = 0.25;
  ModelSpec m = read_llama_like(r, "stablelm", "StableLm", d);
  m.decoder->norm = {.kind = NormSpec::Kind::kLayer, .eps = r.number_or("layer_norm_eps", 1e-5, 0, 1)};
  for (BlockSpec& b : m.decoder->blocks) {
    b.parallel = b.shared_norm = r.flag_or("use_parallel_residual", false);
    b.attention.qkv_bias = r.flag_or("use_qkv_bias", false);
    b.attention.out_bias = b.feed_forward.bias = false;
    if (r.flag_or("qk_layernorm", false)) b.attention.qk_norm = QkNorm::kSeparate;
    b.dropout = r.dropout_or("hidden_dropout", 0.0);
  }
  r.special_tokens(m, 0, 0, -1);
  m.decoder->embedding.padding = m.pad;
  return r.finish(m);
}

std::vector<NameRule> stablelm_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = llama_names(spec);
  const std::string attn = "decoder.layers.{}.attn.", file_attn = "model.layers.{}.self_attn.";
  // One tensor per head: "{e}" counts heads here.
  rules.push_back({attn + "q_norm.{e}", file_attn + "q_layernorm.norms.{e}"});
  rules.push_back({attn + "k_norm.{e}", file_attn + "k_layernorm.norms.{e}"});
  return rules;
}

// One tensor of all heads.
std::vector<NameRule> stablelm_gguf_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = gguf::plain_names(spec);
  rules.push_back({"decoder.layers.{}.attn.q_norm.{e}", "blk.{}.attn_q_norm"});
  rules.push_back({"decoder.layers.{}.attn.k_norm.{e}", "blk.{}.attn_k_norm"});
  return rules;
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
    .implied = {{"hidden_act", "silu"}},
    .names = stablelm_gguf_names,
    .fields_by_tensor = {{"use_qkv_bias", "blk.0.attn_q.bias", true, false},
                         {"qk_layernorm", "blk.0.attn_q_norm.weight", true, false}},
    .rotary_share = "partial_rotary_factor"};

}  // namespace

const Family kStableLm = {.type = "stablelm",
                          .prefix = "model.",
                          .read = read_stablelm,
                          .names = stablelm_names,
                          .ignored = llama_ignored(),
                          .gguf = &kStablelmGguf};

}  // namespace makar
