// GPT-1 (Radford et al., 2018): post-norm, learned positions, weights stored [in, out].
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_openai_gpt(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gpt_like(r, "openai-gpt", "OpenAIGPT");
  const std::string activation = r.text_or("afn", "gelu");  // here "gelu" is the tanh approximation
  r.require(activation == "gelu" || activation == "relu" || activation == "silu" || activation == "swish",
            "afn", "must be gelu, relu, silu or swish");
  for (BlockSpec& b : m.decoder->blocks) {
    b.norm_position = NormPosition::kPost;
    b.feed_forward.activation = activation == "gelu"   ? Activation::kGeluTanh
                                : activation == "relu" ? Activation::kRelu
                                                       : Activation::kSilu;
  }
  m.decoder->final_norm = false;
  return r.finish(m);
}

std::vector<NameRule> openai_gpt_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  return {{"decoder.embed.tokens", "transformer.tokens_embed"},
          {"decoder.embed.positions", "transformer.positions_embed"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"}, file_layer + "attn.c_attn", 1, true},
          {layer + "attn.o", file_layer + "attn.c_proj", true},
          {layer + "norm1", file_layer + "ln_1"},
          {layer + "ffn.up", file_layer + "mlp.c_fc", true},
          {layer + "ffn.down", file_layer + "mlp.c_proj", true},
          {layer + "norm2", file_layer + "ln_2"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

}  // namespace

const Family kOpenAiGpt = {.type = "openai-gpt",
                           .prefix = "transformer.",
                           .read = read_openai_gpt,
                           .names = openai_gpt_names,
                           .ignored = {".attn.bias", "lm_head.weight", "position_ids"}};

}  // namespace makar
