// SmolLM3 (Bakouch et al., 2025): Llama without rotary positions in every fourth layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_smollm3(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.theta = 2e6, d.max_positions = 32768;
  ModelSpec m = read_llama_like(r, "smollm3", "SmolLM3", d);
  StackSpec& s = *m.decoder;
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  r.special_tokens(m, 128000, 128001, 128004);
  s.embedding.padding = m.pad;
  const bool slides = r.flag_or("use_sliding_window", false);
  r.windows(s, slides ? r.window_or("sliding_window", 0) : 0, 1);
  const int64_t interval = r.integer_or("no_rope_layer_interval", 4, 1, 4096);
  const auto uses_rope = r.integers_or("no_rope_layers", 0, 1);  // 0: a layer without positions
  r.require(uses_rope.empty() || uses_rope.size() == s.blocks.size(), "no_rope_layers",
            fmt::format("has {} entries for {} layers", uses_rope.size(), s.layers()));
  for (size_t i = 0; i < s.blocks.size(); ++i) {
    const bool without_rope =
        i < uses_rope.size() ? uses_rope[i] == 0 : (static_cast<int64_t>(i) + 1) % interval == 0;
    if (without_rope) s.blocks[i].attention.rope.reset();
  }
  return r.finish(m);
}

const GgufSection kSmollm3Gguf = {.architecture = "smollm3",
                                  .model = "SmolLM3ForCausalLM",
                                  .keys = gguf::llama_keys(),
                                  .implied = {{"hidden_act", "silu"},
                                              {"attention_bias", false},
                                              {"mlp_bias", false},
                                              {"use_sliding_window", false}},
                                  .names = gguf::paired_names,
                                  .unsupported = [](const ModelSpec& m) -> std::string {
                                    int64_t layer = 0;
                                    for (const BlockSpec& b : m.main().blocks)
                                      if (b.attention.rope.has_value() == (++layer % 4 == 0))
                                        return "another pattern of layers without positions";
                                    return "";
                                  }};

}  // namespace

const Family kSmolLm3 = {.type = "smollm3",
                         .prefix = "model.",
                         .read = read_smollm3,
                         .names = llama_names,
                         .ignored = llama_ignored(),
                         .gguf = &kSmollm3Gguf};

}  // namespace makar
