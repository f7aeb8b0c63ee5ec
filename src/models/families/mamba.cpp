// Mamba (Gu and Dao, 2023) and Mamba 2 (Dao and Gu, 2024): selective scans instead of attention, no
// feed-forward, no positions.
#include "models/families/pages.h"

namespace makar {
namespace {

ModelSpec read_mamba_like(Reader& r, const char* family, const char* model, bool tied) {
  ModelSpec m;
  m.family = family;
  StackSpec s;
  s.name = "decoder";
  s.width = r.width("hidden_size");
  s.norm.kind = NormSpec::Kind::kRms;
  s.record_outputs = true;
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  m.vocab = r.vocab("vocab_size");
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  BlockSpec b;
  MixerSpec& c = b.mixer.emplace();
  c.taps = r.integer_or("conv_kernel", 4, 1, 64);
  c.bias = r.flag_or("use_bias", false);
  c.conv_bias = r.flag_or("use_conv_bias", true);
  r.unsupported(r.text_or("hidden_act", "silu") != "silu", "hidden_act", "other than silu is not supported");
  s.blocks.assign(static_cast<size_t>(r.layers("num_hidden_layers")), b);
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", tied);
  r.special_tokens(m, 0, 0, 0);
  m.initializer_range = r.number_or("initializer_range", 0.1, 0, 10);
  m.decoder = s;
  return m;
}

Result<ModelSpec> read_mamba(const Config& config) {
  Reader r(config);
  ModelSpec m = read_mamba_like(r, "mamba", "Mamba", true);
  const int64_t width = m.decoder->width;
  for (BlockSpec& b : m.decoder->blocks) {
    MixerSpec& c = *b.mixer;
    c.kind = MixerSpec::Kind::kMamba;
    c.states = r.integer_or("state_size", 16, 1, 1024);
    c.inner = r.width_or("intermediate_size", r.integer_or("expand", 2, 1, 64) * width);
    c.dt_rank = r.integer_or("time_step_rank", (width + 15) / 16, 1, 65536);
    c.heads = c.inner;
  }
  return r.finish(m);
}

// True if time_step_limit is not [0, infinity]. Infinity is {"__float__": "Infinity"}
// (formats/config.cpp), a string, null or a huge number.
bool mamba_limits_steps(const Json& config) {
  const auto it = config.find("time_step_limit");
  if (it == config.end() || !it->is_array() || it->size() != 2) return false;
  const Json &low = (*it)[0], &high = (*it)[1];
  return !(low.is_number() && low.get<double>() == 0 && (!high.is_number() || high.get<double>() > 1e30));
}

Result<ModelSpec> read_mamba2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_mamba_like(r, "mamba2", "Mamba2", false);
  r.unsupported(mamba_limits_steps(config.json()), "time_step_limit",
                "other than 0 and infinity is not supported");
  r.unsupported(!r.flag_or("rms_norm", true), "rms_norm", "is false, which is not supported");
  for (BlockSpec& b : m.decoder->blocks) {
    MixerSpec& c = *b.mixer;
    c.kind = MixerSpec::Kind::kMamba2;
    c.states = r.integer_or("state_size", 128, 1, 1024);
    c.heads = r.integer_or("num_heads", 128, 1, 65536);
    c.inner = c.heads * r.integer_or("head_dim", 64, 1, 65536);
    c.groups = r.integer_or("n_groups", 8, 1, 65536);
    c.norm_eps = m.decoder->norm.eps;
    r.require(c.heads % c.groups == 0, "n_groups", "does not divide num_heads");
    r.require(c.inner == r.integer_or("expand", 2, 1, 64) * m.decoder->width, "num_heads",
              "times head_dim is not expand times hidden_size");
  }
  return r.finish(m);
}

std::vector<NameRule> mamba_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", mixer = layer + "mixer.",
                    file_layer = "backbone.layers.{}.";
  return {{"decoder.embed.tokens", "backbone.embeddings"},
          {layer + "norm1", file_layer + "norm"},
          {mixer + "in", file_layer + "mixer.in_proj"},
          {mixer + "conv", file_layer + "mixer.conv1d"},
          {mixer + "x", file_layer + "mixer.x_proj"},
          {mixer + "dt", file_layer + "mixer.dt_proj"},
          {mixer + "dt_bias", file_layer + "mixer.dt_bias"},
          {mixer + "a_log", file_layer + "mixer.A_log"},
          {mixer + "d", file_layer + "mixer.D"},
          {mixer + "norm", file_layer + "mixer.norm"},
          {mixer + "out", file_layer + "mixer.out_proj"},
          {"decoder.norm", "backbone.norm_f"},
          {"head.lm", "lm_head"}};
}

Family mamba_family(const char* type, Result<ModelSpec> (*read)(const Config&), const GgufSection& gguf) {
  return {.type = type,
          .prefix = "backbone.",
          .read = read,
          .names = mamba_names,
          .ignored = {"lm_head.weight"},
          .gguf = &gguf};
}

}  // namespace

const Family kMamba = mamba_family("mamba", read_mamba, mamba_gguf(false));
const Family kMamba2 = mamba_family("mamba2", read_mamba2, mamba_gguf(true));

}  // namespace makar
