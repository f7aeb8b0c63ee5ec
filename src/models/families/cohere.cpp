// Command R (Cohere, 2024): attention and feed-forward in parallel behind one bias-free LayerNorm,
// interleaved rotary positions, scaled logits. Command R7B (cohere2) has three sliding layers per full layer,
// and positions only in sliding layers.
#include "models/families/pages.h"

namespace makar {
namespace {

ModelSpec read_cohere_like(Reader& r, const char* family, const char* model, double logit_scale) {
  LlamaDefaults d;
  d.max_positions = 8192;
  ModelSpec m = read_llama_like(r, family, model, d);
  m.decoder->norm = {
      .kind = NormSpec::Kind::kLayer, .eps = r.number_or("layer_norm_eps", 1e-5, 0, 1), .bias = false};
  for (BlockSpec& b : m.decoder->blocks) {
    b.parallel = b.shared_norm = true;
    b.attention.rope->interleaved = true;
  }
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  m.head.scale = r.number_or("logit_scale", logit_scale, 1e-9, 1e9);
  r.special_tokens(m, 5, 255001, 0);
  m.decoder->embedding.padding = m.pad;
  return m;
}

Result<ModelSpec> read_cohere(const Config& config) {
  Reader r(config);
  ModelSpec m = read_cohere_like(r, "cohere", "Cohere", 0.0625);
  if (r.flag_or("use_qk_norm", false))
    for (BlockSpec& b : m.decoder->blocks) b.attention.qk_norm = QkNorm::kEachHead;
  return r.finish(m);
}

Result<ModelSpec> read_cohere2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_cohere_like(r, "cohere2", "Cohere2", 0.0625);
  const int64_t period = r.integer_or({"sliding_window_pattern", "_sliding_window_pattern"}, 4, 1, 1024);
  r.windows(*m.decoder, r.window_or("sliding_window", 4096), period);
  for (BlockSpec& b : m.decoder->blocks)
    if (b.attention.window == 0) b.attention.rope.reset();
  return r.finish(m);
}

GgufKeys cohere_keys() {
  return gguf::hf_sizes() +
         GgufKeys{
             {"attention.head_count_kv", "num_key_value_heads", GgufKey::kInteger, false, gguf::kv_heads},
             {"attention.key_length", "head_dim", GgufKey::kInteger, false, gguf::head_dim},
             {"attention.value_length", "", GgufKey::kInteger, false, gguf::head_dim},
             {"logit_scale", "logit_scale", GgufKey::kReal, true,
              [](const ModelSpec& m) { return static_cast<double>(m.head.scale); }}} +
         gguf::norm_key("layer_norm_eps") + gguf::rope_keys();
}

// llama.cpp expects norms of queries and keys in models of 64 layers and more, and a tied output.
std::string cohere_unsupported(const ModelSpec& m) {
  if (!m.head.tied) return "tie_word_embeddings = false";
  if (m.family == "cohere2") return gguf::slides_with_period(m, 4) ? "" : "another pattern of sliding layers";
  const bool has_qk_norm = m.main().first().attention.qk_norm != QkNorm::kNone;
  return has_qk_norm == (m.main().layers() >= 64) ? "" : fmt::format("use_qk_norm = {}", has_qk_norm);
}

const GgufSection kCohereGguf = {
    .architecture = "command-r",
    .model = "CohereForCausalLM",
    .keys = cohere_keys(),
    .implied = {{"hidden_act", "silu"}, {"attention_bias", false}},
    .names = gguf::plain_names,
    .fields_by_tensor = {{"use_qk_norm", "blk.0.attn_q_norm.weight", true, false}},
    .unsupported = cohere_unsupported};
const GgufSection kCohere2Gguf = {.architecture = "cohere2",
                                  .model = "Cohere2ForCausalLM",
                                  .keys = cohere_keys() + gguf::window_key(),
                                  .implied = {{"hidden_act", "silu"}, {"attention_bias", false}},
                                  .names = gguf::plain_names,
                                  .unsupported = cohere_unsupported};

}  // namespace

const Family kCohere = {.type = "cohere",
                        .prefix = "model.",
                        .read = read_cohere,
                        .names = llama_names,
                        .ignored = llama_ignored(),
                        .gguf = &kCohereGguf};
const Family kCohere2 = {.type = "cohere2",
                         .prefix = "model.",
                         .read = read_cohere2,
                         .names = llama_names,
                         .ignored = llama_ignored(),
                         .gguf = &kCohere2Gguf};

}  // namespace makar
