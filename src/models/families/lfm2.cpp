// LFM2 (Liquid AI, 2025): most layers are gated short convolutions, some are attention with normalised
// queries and keys; gated feed-forward everywhere.
#include "models/families/pages.h"

namespace makar {
namespace {

// The width of the feed-forward from intermediate_size, as the reference adjusts it.
int64_t lfm2_width(Reader& r) {
  const int64_t size = r.integer_or({"intermediate_size", "block_ff_dim"}, 12288, 1, int64_t{1} << 20);
  if (!r.flag_or("block_auto_adjust_ff_dim", true)) return size;
  const double factor = r.number_or("block_ffn_dim_multiplier", 1.0, 1e-3, 1e3);
  const int64_t multiple = r.integer_or("block_multiple_of", 256, 1, 65536);
  const auto width = static_cast<int64_t>(factor * static_cast<double>(2 * size / 3));
  return (width + multiple - 1) / multiple * multiple;
}

Result<ModelSpec> read_lfm2(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.theta = 1e6, d.max_positions = 128000;
  ModelSpec m = read_llama_like(r, "lfm2", "Lfm2", d);
  StackSpec& s = *m.decoder;
  s.norm.eps = r.number_or({"norm_eps", "block_norm_eps"}, 1e-5, 0, 1);
  m.head.tied = r.flag_or({"tie_word_embeddings", "tie_embedding"}, true);
  const auto types = r.texts_or("layer_types");
  const auto full = r.integers_or("full_attn_idxs", 0, 1023);  // layers with attention
  r.require(types.empty() || types.size() == s.blocks.size(), "layer_types", "needs one entry per layer");
  const int64_t width = lfm2_width(r);
  MixerSpec conv;
  conv.kind = MixerSpec::Kind::kShortConv;
  conv.inner = s.width;
  conv.taps = r.integer_or("conv_L_cache", 3, 1, 64);
  conv.bias = conv.conv_bias = r.flag_or("conv_bias", false);
  for (size_t i = 0; i < s.blocks.size(); ++i) {
    BlockSpec& b = s.blocks[i];
    b.feed_forward.width = width;
    b.attention.qk_norm = QkNorm::kHead;
    const bool attends = std::find(full.begin(), full.end(), static_cast<int64_t>(i)) != full.end();
    const bool convolves = i < types.size() ? types[i] == "conv" : !full.empty() && !attends;
    if (convolves) b.mixer = conv;
    r.require(convolves || types.size() <= i || types[i] == "full_attention", "layer_types",
              "must be 'conv' or 'full_attention'");
  }
  return r.finish(m);
}

std::vector<NameRule> lfm2_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return with_names(llama_names(spec), {{layer + "norm1", file_layer + "operator_norm"},
                                        {layer + "norm2", file_layer + "ffn_norm"},
                                        {layer + "attn.o", file_layer + "self_attn.out_proj"},
                                        {layer + "attn.q_norm", file_layer + "self_attn.q_layernorm"},
                                        {layer + "attn.k_norm", file_layer + "self_attn.k_layernorm"},
                                        {layer + "mixer.in", file_layer + "conv.in_proj"},
                                        {layer + "mixer.conv", file_layer + "conv.conv"},
                                        {layer + "mixer.out", file_layer + "conv.out_proj"},
                                        {layer + "ffn.gate", file_layer + "feed_forward.w1"},
                                        {layer + "ffn.up", file_layer + "feed_forward.w3"},
                                        {layer + "ffn.down", file_layer + "feed_forward.w2"},
                                        {"decoder.norm", "model.embedding_norm"}});
}

std::vector<NameRule> lfm2_gguf_names(const ModelSpec& m) {
  const std::string mixer = "decoder.layers.{}.mixer.", file_mixer = "blk.{}.shortconv.";
  std::vector<NameRule> rules =
      with_names(gguf::plain_names(m), {{"decoder.norm", "token_embd_norm"},  // llama.cpp's name for it
                                        {mixer + "in", file_mixer + "in_proj"},
                                        {mixer + "out", file_mixer + "out_proj"}});
  rules.push_back(NameRule(mixer + "conv.weight", file_mixer + "conv.weight").as_matrix(m.main().width));
  return rules;
}

double lfm2_taps(const ModelSpec& m) {
  for (const BlockSpec& b : m.main().blocks)
    if (b.mixer) return static_cast<double>(b.mixer->taps);
  return 3;
}

// GGUF has the number of key and value heads of every layer, 0 for a convolution.
void lfm2_put(const ModelSpec& m, GgufFields& fields) {
  std::vector<int32_t> heads;
  for (const BlockSpec& b : m.main().blocks)
    heads.push_back(b.mixer ? 0 : static_cast<int32_t>(b.attention.kv_heads));
  fields.set("lfm2.attention.head_count_kv", GgufValue::i32s(heads));
}
void lfm2_derive(const Gguf& file, Json& config) {
  const GgufValue* value = file.fields().find("lfm2.attention.head_count_kv");
  const auto heads = value ? value->integers() : std::nullopt;
  if (!heads) return;
  int64_t max = 1;
  Json types = Json::array();
  for (const int64_t h : *heads) max = std::max(max, h), types.push_back(h > 0 ? "full_attention" : "conv");
  config["num_key_value_heads"] = max, config["layer_types"] = types;
}

const GgufSection kLfm2Gguf = {
    .architecture = "lfm2",
    .model = "Lfm2ForCausalLM",
    .keys = gguf::hf_sizes() + gguf::rms_norm_key("norm_eps") + gguf::rope_keys() +
            GgufKeys{{"shortconv.l_cache", "conv_L_cache", GgufKey::kInteger, true, lfm2_taps}},
    .implied = {{"conv_bias", false}},
    .names = lfm2_gguf_names,
    .derive =
        [](const Gguf& file, Json& config) {
          config["block_auto_adjust_ff_dim"] = false;  // the key has the adjusted width
          lfm2_derive(file, config);
        },
    .put = lfm2_put};

}  // namespace

const Family kLfm2 = {.type = "lfm2",
                      .prefix = "model.",
                      .read = read_lfm2,
                      .names = lfm2_names,
                      .ignored = llama_ignored(),
                      .gguf = &kLfm2Gguf};

}  // namespace makar
