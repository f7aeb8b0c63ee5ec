// gpt-oss (OpenAI, 2025): a mixture of experts with clamped gates in every layer, a learned attention sink
// per head, a sliding window in every other layer, biases, yarn.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_gpt_oss(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.theta = 150000.0, d.eps = 1e-5, d.max_positions = 131072, d.head_dim = 64;
  ModelSpec m = read_llama_like(r, "gpt_oss", "GptOss", d);
  r.windows(*m.decoder, r.window_or("sliding_window", 128), 2);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qkv_bias = b.attention.out_bias = r.flag_or("attention_bias", true);
    b.attention.sink_logits = true;
    FeedForwardSpec& f = b.feed_forward;
    f = r.experts(f, "num_local_experts", 128, 4);
    f.bias = f.router_bias = true;
    f.gate_limit = r.number_or("swiglu_limit", 7.0, 1e-3, 1e6);
  }
  m.router_loss = r.router_loss(0.9);
  return r.finish(m);
}

std::vector<NameRule> gpt_oss_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", expert = layer + "ffn.experts.{e}.",
                    file_layer = "model.layers.{}.", file_experts = file_layer + "mlp.experts.";
  const int64_t width = spec.decoder->first().feed_forward.width;
  // Gate and up are interleaved; matrices are stored [experts, in, out].
  return with_names(
      llama_names(spec),
      {{layer + "attn.sinks", file_layer + "self_attn.sinks"},
       {layer + "ffn.router", file_layer + "mlp.router"},
       {{expert + "gate.weight", expert + "up.weight"}, file_experts + "gate_up_proj", width, true},
       {{expert + "gate.bias", expert + "up.bias"}, file_experts + "gate_up_proj_bias", width},
       {expert + "down.weight", file_experts + "down_proj", true},
       {expert + "down.bias", file_experts + "down_proj_bias"}});
}

std::vector<NameRule> gpt_oss_gguf_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.";
  return with_names(gguf::plain_names(spec), {{layer + "attn.sinks", "blk.{}.attn_sinks.weight"},
                                              {layer + "norm2", "blk.{}.post_attention_norm"}});
}

const GgufSection kGptOssGguf = {
    .architecture = "gpt-oss",
    .model = "GptOssForCausalLM",
    .keys = gguf::llama_keys() + gguf::window_key() + gguf::expert_keys("num_local_experts") +
            GgufKeys{{"expert_feed_forward_length", "intermediate_size", GgufKey::kInteger, true,
                      gguf::feed_forward}},
    .implied = {{"hidden_act", "silu"}, {"swiglu_limit", 7.0}, {"attention_bias", true}},
    .names = gpt_oss_gguf_names,
    .derive =
        [](const Gguf&, Json& config) {
          if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;
        },
    .unsupported = [](const ModelSpec& m) -> std::string {
      return gguf::slides_with_period(m, 2) ? "" : "another pattern of sliding layers";
    }};

}  // namespace

const Family kGptOss = {.type = "gpt_oss",
                        .prefix = "model.",
                        .read = read_gpt_oss,
                        .names = gpt_oss_names,
                        .ignored = llama_ignored(),
                        .gguf = &kGptOssGguf};

}  // namespace makar
