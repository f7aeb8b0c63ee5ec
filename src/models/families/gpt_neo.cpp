// GPT-Neo (Black et al., 2021): GPT-2 with unscaled attention and a window in every other layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_gpt_neo(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gpt_like(r, "gpt_neo", "GPTNeo");
  StackSpec& s = *m.decoder;
  const int64_t window = r.window_or("window_size", 256);
  const auto kinds = r.texts_or("attention_layers");
  r.require(kinds.empty() || kinds.size() == s.blocks.size(), "attention_layers",
            fmt::format("has {} entries for {} layers", kinds.size(), s.layers()));
  for (size_t i = 0; i < s.blocks.size(); ++i) {
    AttentionSpec& a = s.blocks[i].attention;
    const std::string kind = i < kinds.size() ? kinds[i] : (i % 2 == 0 ? "global" : "local");
    r.require(kind == "global" || kind == "local", "attention_layers",
              "must contain only 'global' and 'local'");
    a.window = kind == "local" ? window : 0;
    a.scale = 1.0f;
    a.qkv_bias = false;
    a.dropout = r.dropout_or("attention_dropout", 0.0);
    s.blocks[i].dropout = r.dropout_or("resid_dropout", 0.0);
  }
  s.embedding.dropout = r.dropout_or("embed_dropout", 0.0);
  return r.finish(m);
}

std::vector<NameRule> gpt_neo_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  return {{"decoder.embed.tokens", "transformer.wte"},
          {"decoder.embed.positions", "transformer.wpe"},
          {layer + "norm1", file_layer + "ln_1"},
          {layer + "attn.q", file_layer + "attn.attention.q_proj"},
          {layer + "attn.k", file_layer + "attn.attention.k_proj"},
          {layer + "attn.v", file_layer + "attn.attention.v_proj"},
          {layer + "attn.o", file_layer + "attn.attention.out_proj"},
          {layer + "norm2", file_layer + "ln_2"},
          {layer + "ffn.up", file_layer + "mlp.c_fc"},
          {layer + "ffn.down", file_layer + "mlp.c_proj"},
          {"decoder.norm", "transformer.ln_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

}  // namespace

const Family kGptNeo = {.type = "gpt_neo",
                        .prefix = "transformer.",
                        .read = read_gpt_neo,
                        .names = gpt_neo_names,
                        .ignored = {".attention.bias", ".attention.masked_bias", "lm_head.weight"}};

}  // namespace makar
