// EXAONE 4 (LG AI Research, 2025): norms after each sublayer only, norms of queries and keys; the large model
// has three sliding layers per full layer, and positions only in sliding layers.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_exaone4(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.eps = 1e-5;
  ModelSpec m = read_llama_like(r, "exaone4", "Exaone4", d);
  StackSpec& s = *m.decoder;
  const int64_t window = r.window_or("sliding_window", 0);
  r.windows(s, window, 4);
  for (BlockSpec& b : s.blocks) {
    b.norm_position = NormPosition::kAfter;
    b.attention.qk_norm = QkNorm::kHead;
    if (window > 0 && b.attention.window == 0) b.attention.rope.reset();
  }
  r.special_tokens(m, 0, 2, -1);
  s.embedding.padding = m.pad;
  return r.finish(m);
}

std::vector<NameRule> exaone4_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "model.layers.{}.";
  return with_names(llama_names(spec), {{layer + "norm1_after", file_layer + "post_attention_layernorm"},
                                        {layer + "norm2_after", file_layer + "post_feedforward_layernorm"}});
}

// llama.cpp knows only the window of the 32B model, which it recognises by its 64 layers.
constexpr int64_t kExaoneLargeLayers = 64, kExaoneLargeWindow = 4096;

const GgufSection kExaone4Gguf = {.architecture = "exaone4",
                                  .model = "Exaone4ForCausalLM",
                                  .keys = gguf::llama_keys(),
                                  .implied = {{"hidden_act", "silu"}},
                                  .names = gguf::plain_names,
                                  .derive =
                                      [](const Gguf&, Json& config) {
                                        if (config["num_hidden_layers"] == kExaoneLargeLayers)
                                          config["sliding_window"] = kExaoneLargeWindow;
                                      },
                                  .unsupported = [](const ModelSpec& m) -> std::string {
                                    const bool large = m.main().layers() == kExaoneLargeLayers;
                                    const bool fits = large ? gguf::slides_with_period(m, 4) &&
                                                                  gguf::window(m) == kExaoneLargeWindow
                                                            : !m.main().has_window();
                                    return fits ? "" : "another pattern of sliding layers";
                                  }};

}  // namespace

const Family kExaone4 = {.type = "exaone4",
                         .prefix = "model.",
                         .read = read_exaone4,
                         .names = exaone4_names,
                         .ignored = llama_ignored(),
                         .gguf = &kExaone4Gguf};

}  // namespace makar
