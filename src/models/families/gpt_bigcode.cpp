// GPTBigCode, StarCoder (Li et al., 2023): GPT-2 with one key and value head, weights stored [out, in].
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_gpt_bigcode(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gpt_like(r, "gpt_bigcode", "GPTBigCode");
  const bool multi_query = r.flag_or("multi_query", true),
             scale_scores = r.flag_or("scale_attn_weights", true);
  for (BlockSpec& b : m.decoder->blocks) {
    if (multi_query) b.attention.kv_heads = 1;
    if (!scale_scores) b.attention.scale = 1.0f;
    b.feed_forward.activation = r.activation("activation_function", "gelu_pytorch_tanh");
  }
  r.unsupported(r.flag_or("add_cross_attention", false), "add_cross_attention", "is not supported");
  return r.finish(m);
}

// Without multi_query, query, key and value are fused per head.
std::vector<NameRule> gpt_bigcode_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  const AttentionSpec& a = spec.decoder->first().attention;
  return {{"decoder.embed.tokens", "transformer.wte"},
          {"decoder.embed.positions", "transformer.wpe"},
          {layer + "norm1", file_layer + "ln_1"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"},
           file_layer + "attn.c_attn",
           a.kv_heads == 1 ? 1 : a.heads},
          {layer + "attn.o", file_layer + "attn.c_proj"},
          {layer + "norm2", file_layer + "ln_2"},
          {layer + "ffn.up", file_layer + "mlp.c_fc"},
          {layer + "ffn.down", file_layer + "mlp.c_proj"},
          {"decoder.norm", "transformer.ln_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

const GgufSection kGptBigcodeGguf = {
    .architecture = "starcoder",
    .model = "GPTBigCodeForCausalLM",
    .keys = gguf::sizes("n_embd", "n_layer", "n_head", "n_inner", "n_positions") +
            GgufKeys{{"attention.head_count_kv", "", GgufKey::kInteger, false, gguf::kv_heads}} +
            gguf::norm_key("layer_norm_epsilon"),
    .implied = {{"activation_function", "gelu_pytorch_tanh"},
                {"scale_attn_weights", true},
                {"multi_query", true}},
    .names = gguf::fused_names};

}  // namespace

const Family kGptBigCode = {.type = "gpt_bigcode",
                            .prefix = "transformer.",
                            .read = read_gpt_bigcode,
                            .names = gpt_bigcode_names,
                            .ignored = {".attn.bias", ".attn.masked_bias", "lm_head.weight"},
                            .gguf = &kGptBigcodeGguf};

}  // namespace makar
