// Nemotron-4 and Minitron (NVIDIA, 2024): LayerNorm with weights stored as w - 1, squared ReLU without a
// gate, half of each head rotated.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_nemotron(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 4096, d.activation = "", d.rotary_share = 0.5;
  r.unsupported(r.text_or("hidden_act", "relu2") != "relu2", "hidden_act",
                "other than relu2 is not supported");
  ModelSpec m = read_llama_like(r, "nemotron", "Nemotron", d);
  m.decoder->norm = {
      .kind = NormSpec::Kind::kLayer, .eps = r.number_or("norm_eps", 1e-5, 0, 1), .offset = 1.0f};
  for (BlockSpec& b : m.decoder->blocks) {
    b.feed_forward.gated = false;
    b.feed_forward.activation = Activation::kRelu, b.feed_forward.squared = true;
  }
  r.special_tokens(m, 2, 3, -1);
  m.decoder->embedding.padding = m.pad;
  return r.finish(m);
}

std::vector<NameRule> nemotron_gguf_names(const ModelSpec& m) {
  return gguf::decoder_names(m, {false, false, 1});
}

const GgufSection kNemotronGguf = {
    .architecture = "nemotron",
    .model = "NemotronForCausalLM",
    .keys = gguf::hf_sizes() +
            GgufKeys{{"attention.head_count_kv", "num_key_value_heads", GgufKey::kInteger, false,
                      gguf::kv_heads}} +
            gguf::norm_key("norm_eps") + gguf::rope_keys(),
    .implied = {{"hidden_act", "relu2"}},
    .names = nemotron_gguf_names,
    .fields_by_tensor = {{"attention_bias", "blk.0.attn_output.bias", true, false},
                         {"mlp_bias", "blk.0.ffn_up.bias", true, false}},
    .rotary_share = "partial_rotary_factor"};

}  // namespace

const Family kNemotron = {.type = "nemotron",
                          .prefix = "model.",
                          .read = read_nemotron,
                          .names = llama_names,
                          .ignored = llama_ignored(),
                          .gguf = &kNemotronGguf};

}  // namespace makar
