// Gemma 2 and 3 (Gemma Team, 2024, 2025). Gemma 2 adds norms after each sublayer, soft caps and a sliding
// window in every other layer; Gemma 3 has norms of queries and keys, five sliding layers per full layer,
// and a separate base of the rotary positions for each kind of layer.
#include "models/families/pages.h"

namespace makar {
namespace {

// Reads what Gemma 2 and 3 add: norms on both sides of a sublayer, the scale of the scores, soft caps.
void read_newer_gemma(Reader& r, ModelSpec& m) {
  const auto cap = [&](const char* key) { return r.has(key) ? r.number_or(key, 50.0, 1e-6, 1e9) : 0.0f; };
  for (BlockSpec& b : m.decoder->blocks) {
    b.norm_position = NormPosition::kSandwich;
    b.attention.scale = 1.0f / std::sqrt(r.number_or("query_pre_attn_scalar", 256.0, 1e-6, 1e9));
    b.attention.soft_cap = cap("attn_logit_softcapping");
  }
  m.head.soft_cap = cap("final_logit_softcapping");
}

Result<ModelSpec> read_gemma2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gemma_like(r, "gemma2", "Gemma2", 10000.0, 8192);
  read_newer_gemma(r, m);
  r.windows(*m.decoder, r.window_or("sliding_window", 4096), 2);
  return r.finish(m);
}

Result<ModelSpec> read_gemma3(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gemma_like(r, "gemma3_text", "Gemma3", 1e6, 131072);
  read_newer_gemma(r, m);
  const int64_t period = r.integer_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6, 1, 1024);
  r.windows(*m.decoder, r.window_or("sliding_window", 4096), period);
  const int64_t dim = m.decoder->first().attention.head_dim;
  const auto global = r.rope(dim, 1e6, m.max_positions, 1.0, "full_attention");
  const auto local = r.rope(dim, 1e4, m.max_positions, 1.0, "sliding_attention", "rope_local_base_freq");
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qk_norm = QkNorm::kHead;
    b.attention.rope = b.attention.window > 0 ? local : global;
  }
  return r.finish(m);
}

std::vector<NameRule> gemma2_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return with_names(llama_names(spec), {{layer + "norm1_after", file_layer + "post_attention_layernorm"},
                                        {layer + "norm2", file_layer + "pre_feedforward_layernorm"},
                                        {layer + "norm2_after", file_layer + "post_feedforward_layernorm"}});
}

// query_pre_attn_scalar, not in GGUF: width / heads in the largest model (46 or 62 layers), else the head
// size.
double gemma_query_scalar(bool gemma2, int64_t layers, double width, double heads, double head_dim) {
  return layers == (gemma2 ? 46 : 62) ? width / heads : head_dim;
}
void gemma2_derive(const Gguf&, Json& config) {
  const auto n = [&](const char* field) { return config.value(field, 1.0); };
  config["query_pre_attn_scalar"] = gemma_query_scalar(
      config["model_type"] == "gemma2", config.value("num_hidden_layers", int64_t{0}), n("hidden_size"),
      std::max(1.0, n("num_attention_heads")), config.contains("head_dim") ? n("head_dim") : 256.0);
}
std::string gemma2_unsupported(const ModelSpec& m) {
  const bool gemma2 = m.family == "gemma2";
  const double expected =
      gemma_query_scalar(gemma2, m.main().layers(), gguf::width(m), gguf::heads(m), gguf::head_dim(m));
  if (std::abs(m.main().first().attention.scale * std::sqrt(expected) - 1.0) > 1e-4)
    return fmt::format("query_pre_attn_scalar other than {}", expected);
  if (m.main().has_window() && !gguf::slides_with_period(m, gemma2 ? 2 : 6))
    return "another pattern of sliding layers";
  return !gemma2 && m.main().first().attention.soft_cap > 0 ? "attn_logit_softcapping" : "";
}

double gemma_soft_cap(const ModelSpec& m) {
  const float cap = m.main().first().attention.soft_cap;
  return cap > 0 ? cap : -1;
}
double gemma_head_cap(const ModelSpec& m) { return m.head.soft_cap > 0 ? m.head.soft_cap : -1; }
double gemma_local_theta(const ModelSpec& m) {
  const auto& rope = m.main().first().attention.rope;
  return m.main().has_window() && rope ? rope->theta : -1;
}

const GgufKeys kGemmaCapKeys = {
    {"attn_logit_softcapping", "attn_logit_softcapping", GgufKey::kReal, false, gemma_soft_cap},
    {"final_logit_softcapping", "final_logit_softcapping", GgufKey::kReal, false, gemma_head_cap}};
const GgufSection kGemma2Gguf = {
    .architecture = "gemma2",
    .model = "Gemma2ForCausalLM",
    .keys = gguf::llama_keys() + gguf::window_key() + kGemmaCapKeys,
    .implied = {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
    .names = gemma_gguf_names,
    .derive = gemma2_derive,
    .unsupported = gemma2_unsupported};
const GgufSection kGemma3Gguf = {
    .architecture = "gemma3",
    .model = "Gemma3ForCausalLM",
    .keys =
        gguf::llama_keys() + gguf::window_key() + kGemmaCapKeys +
        GgufKeys{{"rope.freq_base_swa", "rope_local_base_freq", GgufKey::kReal, false, gemma_local_theta}},
    .implied = {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
    .names = gemma_gguf_names,
    .derive = gemma2_derive,
    .unsupported = gemma2_unsupported};

}  // namespace

const Family kGemma2 = {.type = "gemma2",
                        .prefix = "model.",
                        .read = read_gemma2,
                        .names = gemma2_names,
                        .ignored = llama_ignored(),
                        .gguf = &kGemma2Gguf};
const Family kGemma3 = {.type = "gemma3_text",
                        .prefix = "model.",
                        .read = read_gemma3,
                        .names = gemma2_names,
                        .ignored = llama_ignored(),
                        .gguf = &kGemma3Gguf};

}  // namespace makar
