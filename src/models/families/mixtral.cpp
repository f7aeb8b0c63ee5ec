// Mixtral (Jiang et al., 2024): Mistral with a mixture of experts in every layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_mixtral(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.theta = 1e6, d.eps = 1e-5, d.max_positions = 131072;
  ModelSpec m = read_llama_like(r, "mixtral", "Mixtral", d);
  r.windows(*m.decoder, r.window_or("sliding_window", 0), 0);
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qkv_bias = b.attention.out_bias = false;
    b.feed_forward = r.experts(b.feed_forward, "num_local_experts", 8, 2);
    b.feed_forward.bias = false;
  }
  m.router_loss = r.router_loss(0.001);
  r.unsupported(r.number_or("router_jitter_noise", 0.0) != 0.0f, "router_jitter_noise",
                "other than 0 is not supported");
  return r.finish(m);
}

const std::string kMixtralFfn = "decoder.layers.{}.ffn.";

std::vector<NameRule> mixtral_names(const ModelSpec& spec) {
  const std::string file_ffn = "model.layers.{}.block_sparse_moe.";
  return with_names(llama_names(spec), {{kMixtralFfn + "router", file_ffn + "gate"},
                                        {kMixtralFfn + "experts.{e}.gate", file_ffn + "experts.{e}.w1"},
                                        {kMixtralFfn + "experts.{e}.down", file_ffn + "experts.{e}.w2"},
                                        {kMixtralFfn + "experts.{e}.up", file_ffn + "experts.{e}.w3"}});
}

std::vector<NameRule> mixtral_names_in_memory(const ModelSpec& spec) {
  return with_names(llama_names(spec), fused_expert_names());
}

// Files of 2023 have one tensor per expert; others have gate and up of all experts in one tensor.
std::vector<NameRule> mixtral_single_names(const ModelSpec& spec) {
  const std::string file_ffn = "blk.{}.ffn_";
  return with_names(gguf::paired_names(spec), {{kMixtralFfn + "experts.{e}.gate", file_ffn + "gate.{e}"},
                                               {kMixtralFfn + "experts.{e}.up", file_ffn + "up.{e}"},
                                               {kMixtralFfn + "experts.{e}.down", file_ffn + "down.{e}"}});
}
std::vector<NameRule> mixtral_merged_names(const ModelSpec& spec) {
  return with_names(
      gguf::paired_names(spec),
      {{{kMixtralFfn + "experts.{e}.gate", kMixtralFfn + "experts.{e}.up"}, "blk.{}.ffn_gate_up_exps", 1}});
}

const GgufSection kMixtralGguf = {
    .architecture = "llama",
    .model = "MixtralForCausalLM",
    .keys = gguf::llama_keys() + gguf::window_key() + gguf::expert_keys("num_local_experts"),
    .implied = {{"hidden_act", "silu"}},
    .names = gguf::paired_names,
    .layouts = {{"blk.0.ffn_gate.0.weight", mixtral_single_names},
                {"blk.0.ffn_gate_up_exps.weight", mixtral_merged_names}},
    .matches = [](const GgufFields& f) { return f.integer("llama.expert_count").value_or(0) > 0; }};

}  // namespace

std::vector<NameRule> expert_names() {
  const std::string file_ffn = "model.layers.{}.mlp.";
  return {{kMixtralFfn + "router", file_ffn + "gate"},
          {kMixtralFfn + "experts.{e}.gate", file_ffn + "experts.{e}.gate_proj"},
          {kMixtralFfn + "experts.{e}.up", file_ffn + "experts.{e}.up_proj"},
          {kMixtralFfn + "experts.{e}.down", file_ffn + "experts.{e}.down_proj"}};
}

std::vector<NameRule> fused_expert_names() {
  const std::string file_ffn = "model.layers.{}.mlp.";
  return {{kMixtralFfn + "router", file_ffn + "gate"},
          {{kMixtralFfn + "experts.{e}.gate.weight", kMixtralFfn + "experts.{e}.up.weight"},
           file_ffn + "experts.gate_up_proj",
           1},
          {kMixtralFfn + "experts.{e}.down.weight", file_ffn + "experts.down_proj"}};
}

const Family kMixtral = {.type = "mixtral",
                         .prefix = "model.",
                         .read = read_mixtral,
                         .names = mixtral_names,
                         .names_in_memory = mixtral_names_in_memory,
                         .ignored = llama_ignored(),
                         .gguf = &kMixtralGguf};

}  // namespace makar
