// Qwen2-MoE and Qwen3-MoE (Yang et al., 2024, 2025): Qwen with a mixture of experts in most layers; Qwen2-MoE
// also has a gated shared expert for all tokens.
#include "models/families/pages.h"

namespace makar {
namespace {

ModelSpec read_qwen_moe(Reader& r, const char* family, const char* model, bool qwen3) {
  ModelSpec m = read_qwen_like(r, family, model, qwen3);
  const auto dense_indices = r.integers_or("mlp_only_layers", 0, 4096);
  const int64_t routed_period = r.integer_or("decoder_sparse_step", 1, 1, 4096);
  for (int64_t i = 0; i < m.decoder->layers(); ++i) {
    if (std::find(dense_indices.begin(), dense_indices.end(), i) != dense_indices.end() ||
        (i + 1) % routed_period != 0)
      continue;
    FeedForwardSpec& f = m.decoder->blocks[static_cast<size_t>(i)].feed_forward;
    f = qwen3 ? r.experts(f, {"num_experts", "num_local_experts"}, 128, 8)
              : r.experts(f, {"num_experts", "num_local_experts"}, 60, 4);
    f.width = r.width_or("moe_intermediate_size", qwen3 ? 768 : 1408);
    f.normalized = r.flag_or("norm_topk_prob", false);
    f.bias = false;
    if (qwen3) continue;
    f.shared_width = r.width_or("shared_expert_intermediate_size", 5632);
    f.shared_gate = true;
  }
  m.router_loss = r.router_loss(0.001);
  return m;
}

Result<ModelSpec> read_qwen2_moe(const Config& config) {
  Reader r(config);
  return r.finish(read_qwen_moe(r, "qwen2_moe", "Qwen2Moe", false));
}

Result<ModelSpec> read_qwen3_moe(const Config& config) {
  Reader r(config);
  return r.finish(read_qwen_moe(r, "qwen3_moe", "Qwen3Moe", true));
}

std::vector<NameRule> qwen_shared_names() {
  const std::string ffn = "decoder.layers.{}.ffn.", file_shared = "model.layers.{}.mlp.shared_expert";
  return {{ffn + "shared.gate", file_shared + ".gate_proj"},
          {ffn + "shared.up", file_shared + ".up_proj"},
          {ffn + "shared.down", file_shared + ".down_proj"},
          {ffn + "shared_gate", file_shared + "_gate"}};
}

std::vector<NameRule> qwen_moe_names(const ModelSpec& spec) {
  return with_names(with_names(llama_names(spec), expert_names()), qwen_shared_names());
}
std::vector<NameRule> qwen_moe_names_in_memory(const ModelSpec& spec) {
  return with_names(with_names(llama_names(spec), fused_expert_names()), qwen_shared_names());
}

std::vector<NameRule> qwen_moe_gguf_names(const ModelSpec& spec) {
  const std::string ffn = "decoder.layers.{}.ffn.", file_ffn = "blk.{}.ffn_";
  return with_names(gguf::plain_names(spec), {{ffn + "shared.gate", file_ffn + "gate_shexp"},
                                              {ffn + "shared.up", file_ffn + "up_shexp"},
                                              {ffn + "shared.down", file_ffn + "down_shexp"},
                                              {ffn + "shared_gate", file_ffn + "gate_inp_shexp"}});
}

GgufKeys qwen_moe_gguf_keys() {
  return gguf::llama_keys() + gguf::expert_keys("num_experts") +
         GgufKeys{{"expert_feed_forward_length", "moe_intermediate_size", GgufKey::kInteger, true,
                   [](const ModelSpec& m) { return static_cast<double>(m.main().routed()->width); }},
                  {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", GgufKey::kInteger,
                   false, [](const ModelSpec& m) {
                     const int64_t width = m.main().routed()->shared_width;
                     return width > 0 ? static_cast<double>(width) : -1.0;
                   }}};
}

// llama.cpp requires experts in every layer and has one fixed norm_topk_prob per family.
std::string qwen_moe_unsupported(const ModelSpec& spec) {
  for (const BlockSpec& b : spec.decoder->blocks)
    if (b.feed_forward.experts == 0) return "dense layers";
  const bool qwen3 = spec.family == "qwen3_moe";
  return spec.decoder->routed()->normalized == qwen3 ? "" : fmt::format("norm_topk_prob = {}", !qwen3);
}

const GgufSection kQwen2MoeGguf = {
    .architecture = "qwen2moe",
    .model = "Qwen2MoeForCausalLM",
    .keys = qwen_moe_gguf_keys(),
    .implied = {{"hidden_act", "silu"}, {"use_sliding_window", false}, {"norm_topk_prob", false}},
    .names = qwen_moe_gguf_names,
    .unsupported = qwen_moe_unsupported};
const GgufSection kQwen3MoeGguf = {.architecture = "qwen3moe",
                                   .model = "Qwen3MoeForCausalLM",
                                   .keys = qwen_moe_gguf_keys(),
                                   .implied = {{"hidden_act", "silu"},
                                               {"use_sliding_window", false},
                                               {"attention_bias", false},
                                               {"norm_topk_prob", true}},
                                   .names = qwen_moe_gguf_names,
                                   .unsupported = qwen_moe_unsupported};

}  // namespace

const Family kQwen2Moe = {.type = "qwen2_moe",
                          .prefix = "model.",
                          .read = read_qwen2_moe,
                          .names = qwen_moe_names,
                          .names_in_memory = qwen_moe_names_in_memory,
                          .ignored = llama_ignored(),
                          .gguf = &kQwen2MoeGguf};
const Family kQwen3Moe = {.type = "qwen3_moe",
                          .prefix = "model.",
                          .read = read_qwen3_moe,
                          .names = qwen_moe_names,
                          .names_in_memory = qwen_moe_names_in_memory,
                          .ignored = llama_ignored(),
                          .gguf = &kQwen3MoeGguf};

}  // namespace makar
