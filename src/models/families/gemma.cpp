// Gemma 1, 2 and 3 (Gemma Team, 2024, 2025): wide heads, embeddings scaled by the root of the width, norm
// weights stored as w - 1. Gemma 2 adds norms after each sublayer, soft caps and a sliding window in every
// other layer; Gemma 3 has norms of queries and keys, five sliding layers per full one, and rotary positions
// with a base of their own in each kind of layer.
#include "models/families/pages.h"

namespace makar {
namespace {

ModelSpec read_common(Reader& r, const char* family, const char* model, double theta, int64_t positions) {
  LlamaDefaults d;
  d.theta = theta, d.max_positions = positions, d.activation = "gelu_pytorch_tanh", d.head_dim = 256;
  ModelSpec m = read_llama_like(r, family, model, d);
  m.decoder->norm.offset = 1.0f;
  m.decoder->embedding.scale = std::sqrt(static_cast<float>(m.decoder->width));
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  r.special_tokens(m, 2, 1, 0);
  m.decoder->embedding.padding = m.pad;
  r.unsupported(r.flag_or("use_bidirectional_attention", false), "use_bidirectional_attention",
                "is not supported");
  return m;
}

// Norms on both sides of a sublayer, the scale of the scores, soft caps.
void read_newer(Reader& r, ModelSpec& m) {
  const auto cap = [&](const char* key) { return r.has(key) ? r.number_or(key, 50.0, 1e-6, 1e9) : 0.0f; };
  for (BlockSpec& b : m.decoder->blocks) {
    b.place = NormPlace::kSandwich;
    b.attention.scale = 1.0f / std::sqrt(r.number_or("query_pre_attn_scalar", 256.0, 1e-6, 1e9));
    b.attention.soft_cap = cap("attn_logit_softcapping");
  }
  m.head.soft_cap = cap("final_logit_softcapping");
}

Result<ModelSpec> read1(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "gemma", "Gemma", 10000.0, 8192);
  // "hidden_act": "gelu" in files of the first release means the tanh approximation.
  if (!r.has("hidden_activation"))
    for (BlockSpec& b : m.decoder->blocks) b.feed_forward.activation = Activation::kGeluTanh;
  return r.finish(m);
}

Result<ModelSpec> read2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "gemma2", "Gemma2", 10000.0, 8192);
  read_newer(r, m);
  r.windows(*m.decoder, r.window_or("sliding_window", 4096), 2);
  return r.finish(m);
}

Result<ModelSpec> read3(const Config& config) {
  Reader r(config);
  ModelSpec m = read_common(r, "gemma3_text", "Gemma3", 1e6, 131072);
  read_newer(r, m);
  const int64_t period = r.integer_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6, 1, 1024);
  r.windows(*m.decoder, r.window_or("sliding_window", 4096), period);
  const int64_t dim = m.decoder->first().attention.head_dim;
  const auto wide = r.rope(dim, 1e6, m.max_positions, 1.0, "full_attention");
  const auto local = r.rope(dim, 1e4, m.max_positions, 1.0, "sliding_attention", "rope_local_base_freq");
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qk_norm = QkNorm::kHead;
    b.attention.rope = b.attention.window > 0 ? local : wide;
  }
  return r.finish(m);
}

std::vector<NameRule> names(const ModelSpec& spec) {
  const std::string ours = "decoder.layers.{}.", theirs = "model.layers.{}.";
  return with_names(llama_names(spec), {{ours + "norm1_after", theirs + "post_attention_layernorm"},
                                        {ours + "norm2", theirs + "pre_feedforward_layernorm"},
                                        {ours + "norm2_after", theirs + "post_feedforward_layernorm"}});
}

std::vector<NameRule> gguf_names(const ModelSpec& m) { return gguf::decoder_names(m, {false, false, 1}); }

// GGUF has no key for the scale of the scores: the largest model (46 layers of Gemma 2, 62 of Gemma 3) uses
// width / heads, smaller ones the head size.
double scalar(int64_t layers, int64_t largest, double width, double heads, double head_dim) {
  return layers == largest ? width / heads : head_dim;
}
void derive(const Gguf&, Json& config) {
  const auto n = [&](const char* field) { return config.value(field, 1.0); };
  const int64_t largest = config["model_type"] == "gemma2" ? 46 : 62;
  config["query_pre_attn_scalar"] =
      scalar(config.value("num_hidden_layers", int64_t{0}), largest, n("hidden_size"),
             std::max(1.0, n("num_attention_heads")), config.contains("head_dim") ? n("head_dim") : 256.0);
}
std::string beyond(const ModelSpec& m) {
  const bool second = m.family == "gemma2";
  const double want =
      scalar(m.main().layers(), second ? 46 : 62, gguf::width(m), gguf::heads(m), gguf::head_dim(m));
  if (std::abs(m.main().first().attention.scale * std::sqrt(want) - 1.0) > 1e-4)
    return fmt::format("query_pre_attn_scalar other than {}", want);
  if (m.main().has_window() && !gguf::slides_with_period(m, second ? 2 : 6)) return "other sliding layers";
  return !second && m.main().first().attention.soft_cap > 0 ? "attn_logit_softcapping" : "";
}

double soft_cap(const ModelSpec& m) {
  const float cap = m.main().first().attention.soft_cap;
  return cap > 0 ? cap : -1;
}
double head_cap(const ModelSpec& m) { return m.head.soft_cap > 0 ? m.head.soft_cap : -1; }
double local_theta(const ModelSpec& m) {
  const auto& rope = m.main().first().attention.rope;
  return m.main().has_window() && rope ? rope->theta : -1;
}

const GgufSection kGguf1 = {
    .architecture = "gemma",
    .model = "GemmaForCausalLM",
    .keys = gguf::llama_keys(),
    .implied = {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
    .names = gguf_names};
const GgufKeys kCaps = {
    {"attn_logit_softcapping", "attn_logit_softcapping", GgufKey::kReal, false, soft_cap},
    {"final_logit_softcapping", "final_logit_softcapping", GgufKey::kReal, false, head_cap}};
const GgufSection kGguf2 = {
    .architecture = "gemma2",
    .model = "Gemma2ForCausalLM",
    .keys = gguf::llama_keys() + gguf::window_key() + kCaps,
    .implied = {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
    .names = gguf_names,
    .derive = derive,
    .beyond = beyond};
const GgufSection kGguf3 = {
    .architecture = "gemma3",
    .model = "Gemma3ForCausalLM",
    .keys = gguf::llama_keys() + gguf::window_key() + kCaps +
            GgufKeys{{"rope.freq_base_swa", "rope_local_base_freq", GgufKey::kReal, false, local_theta}},
    .implied = {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
    .names = gguf_names,
    .derive = derive,
    .beyond = beyond};

}  // namespace

const Family kGemma = {.type = "gemma",
                       .prefix = "model.",
                       .read = read1,
                       .names = llama_names,
                       .ignored = llama_ignored(),
                       .gguf = &kGguf1};
const Family kGemma2 = {.type = "gemma2",
                        .prefix = "model.",
                        .read = read2,
                        .names = names,
                        .ignored = llama_ignored(),
                        .gguf = &kGguf2};
const Family kGemma3 = {.type = "gemma3_text",
                        .prefix = "model.",
                        .read = read3,
                        .names = names,
                        .ignored = llama_ignored(),
                        .gguf = &kGguf3};

}  // namespace makar
