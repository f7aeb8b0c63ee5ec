// The GGUF sections of Mamba and Mamba 2.
#include "models/families/pages.h"

namespace makar {
namespace {

const MixerSpec& mamba_mixer(const ModelSpec& m) { return *m.main().first().mixer; }
double mamba_zero(const ModelSpec&) { return 0; }

std::vector<NameRule> mamba_gguf_names(const ModelSpec& m) {
  const std::string mixer = "decoder.layers.{}.mixer.", file_mixer = "blk.{}.ssm_";
  const MixerSpec& c = mamba_mixer(m);
  const bool mamba2 = c.kind == MixerSpec::Kind::kMamba2;
  const int64_t rows = mamba2 ? c.heads : c.inner;
  std::vector<NameRule> rules = {{"decoder.embed.tokens", "token_embd"},
                                 {"decoder.norm", "output_norm"},
                                 {"head.lm", "output"},
                                 {"decoder.layers.{}.norm1", "blk.{}.attn_norm"},
                                 {mixer + "in", file_mixer + "in"},
                                 {mixer + "conv.bias", file_mixer + "conv1d.bias"},
                                 {mixer + "x", file_mixer + "x"},
                                 {mixer + "dt", file_mixer + "dt"},
                                 {mixer + "dt_bias", file_mixer + "dt.bias"},
                                 {mixer + "out", file_mixer + "out"}};
  rules.push_back(NameRule(mixer + "conv.weight", file_mixer + "conv1d.weight").as_matrix(c.conv_channels()));
  rules.push_back(NameRule(mixer + "a_log", file_mixer + "a").as_matrix(rows).as_negative_exp());
  if (mamba2) {
    rules.push_back(NameRule(mixer + "d", file_mixer + "d").as_matrix(rows));
    rules.push_back(NameRule(mixer + "norm", file_mixer + "norm").as_matrix(c.groups));
  } else {
    rules.emplace_back(mixer + "d", file_mixer + "d");
  }
  return rules;
}

GgufKeys mamba_gguf_keys(bool mamba2) {
  using Kind = GgufKey::Kind;
  const GgufKeys common_keys = {
      {"vocab_size", "", Kind::kInteger, false,
       [](const ModelSpec& m) { return static_cast<double>(m.vocab); }},
      // No limit; the value that llama.cpp's converter writes.
      {"context_length", "", Kind::kInteger, false, [](const ModelSpec&) { return 1048576.0; }},
      {"embedding_length", "hidden_size", Kind::kInteger, true, gguf::width},
      {"block_count", "num_hidden_layers", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(m.main().layers()); }},
      {"feed_forward_length", "", Kind::kInteger, false, mamba_zero},
      {"attention.head_count", "", Kind::kInteger, false, mamba_zero},
      {"ssm.conv_kernel", "conv_kernel", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(mamba_mixer(m).taps); }},
      {"ssm.inner_size", "intermediate_size", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(mamba_mixer(m).inner); }},
      {"ssm.state_size", "state_size", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(mamba_mixer(m).states); }}};
  const GgufKeys mamba1_keys = {
      {"ssm.time_step_rank", "time_step_rank", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(mamba_mixer(m).dt_rank); }},
      {"ssm.dt_b_c_rms", "", Kind::kFlag, false, mamba_zero}};
  const GgufKeys mamba2_keys = {
      {"ssm.time_step_rank", "num_heads", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(mamba_mixer(m).heads); }},
      {"ssm.group_count", "n_groups", Kind::kInteger, true,
       [](const ModelSpec& m) { return static_cast<double>(mamba_mixer(m).groups); }}};
  return common_keys + gguf::rms_norm_key("layer_norm_epsilon") + (mamba2 ? mamba2_keys : mamba1_keys);
}

// GGUF stores the inner width and the number of heads instead of expand and head_dim.
void mamba2_derive(const Gguf&, Json& config) {
  const int64_t inner = config["intermediate_size"].get<int64_t>(),
                width = config["hidden_size"].get<int64_t>(), heads = config["num_heads"].get<int64_t>();
  config.erase("intermediate_size");
  if (width > 0) config["expand"] = inner / width;
  if (heads > 0) config["head_dim"] = inner / heads;
}

const GgufSection kMambaGguf = {
    .architecture = "mamba",
    .model = "MambaForCausalLM",
    .keys = mamba_gguf_keys(false),
    .implied = {{"use_bias", false}, {"use_conv_bias", true}, {"hidden_act", "silu"}},
    .names = mamba_gguf_names,
    // Falcon Mamba normalises the steps and the states.
    .matches =
        [](const GgufFields& f) {
          const GgufValue* normalises = f.find("mamba.ssm.dt_b_c_rms");
          return !normalises || !normalises->flag().value_or(false);
        },
    .unsupported = [](const ModelSpec& m) -> std::string {
      return mamba_mixer(m).inner == 2 * m.main().width ? "" : "an inner width other than twice the width";
    }};
const GgufSection kMamba2Gguf = {
    .architecture = "mamba2",
    .model = "Mamba2ForCausalLM",
    .keys = mamba_gguf_keys(true),
    .implied = {{"use_bias", false}, {"use_conv_bias", true}, {"hidden_act", "silu"}},
    .names = mamba_gguf_names,
    .derive = mamba2_derive,
    // llama.cpp normalises each group, as the original code does; transformers and this stack normalise the
    // whole width.
    .unsupported = [](const ModelSpec& m) -> std::string {
      return mamba_mixer(m).groups == 1 ? "" : "n_groups above 1 and a norm over all of them";
    }};

}  // namespace

const GgufSection& mamba_gguf(bool mamba2) { return mamba2 ? kMamba2Gguf : kMambaGguf; }

}  // namespace makar
