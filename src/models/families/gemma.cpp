// Gemma (Gemma Team, 2024): wide heads, embeddings scaled by the square root of the width, norm weights
// stored as w - 1. Gemma 2 and 3 share these properties.
#include "models/families/pages.h"

namespace makar {

ModelSpec read_gemma_like(Reader& r, const char* family, const char* model, double theta, int64_t positions) {
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

std::vector<NameRule> gemma_gguf_names(const ModelSpec& m) {
  return gguf::decoder_names(m, {false, false, 1});
}

namespace {

Result<ModelSpec> read_gemma(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gemma_like(r, "gemma", "Gemma", 10000.0, 8192);
  // "hidden_act": "gelu" in files of the first release means the tanh approximation.
  if (!r.has("hidden_activation"))
    for (BlockSpec& b : m.decoder->blocks) b.feed_forward.activation = Activation::kGeluTanh;
  return r.finish(m);
}

const GgufSection kGemmaGguf = {
    .architecture = "gemma",
    .model = "GemmaForCausalLM",
    .keys = gguf::llama_keys(),
    .implied = {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
    .names = gemma_gguf_names};

}  // namespace

const Family kGemma = {.type = "gemma",
                       .prefix = "model.",
                       .read = read_gemma,
                       .names = llama_names,
                       .ignored = llama_ignored(),
                       .gguf = &kGemmaGguf};

}  // namespace makar
