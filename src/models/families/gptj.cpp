// GPT-J (Wang & Komatsuzaki, 2021): attention and feed-forward in parallel after one norm, the first
// dimensions of each head rotated in adjacent pairs, an output bias.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_gptj(const Config& config) {
  Reader r(config);
  ModelSpec m = read_gpt_like(r, "gptj", "GPTJ");
  StackSpec& s = *m.decoder;
  s.embedding.positions = PositionKind::kNone;
  m.head.tied = r.flag_or("tie_word_embeddings", false);
  m.head.lm_bias = m.head.kind == HeadKind::kCausalLm;
  ops::RopeOptions rope;
  rope.rotary = r.integer_or("rotary_dim", 64, 2, 65536);
  rope.interleaved = true;
  r.require(rope.rotary % 2 == 0 && rope.rotary <= s.first().attention.head_dim, "rotary_dim",
            "must be even and at most the head size");
  for (BlockSpec& b : s.blocks) {
    b.parallel = b.shared_norm = true;
    b.attention.qkv_bias = b.attention.out_bias = false;
    b.attention.rope = rope;
  }
  return r.finish(m);
}

std::vector<NameRule> gptj_names(const ModelSpec&) {
  const std::string layer = "decoder.layers.{}.", file_layer = "transformer.h.{}.";
  return {{"decoder.embed.tokens", "transformer.wte"},
          {layer + "norm1", file_layer + "ln_1"},
          {layer + "attn.q", file_layer + "attn.q_proj"},
          {layer + "attn.k", file_layer + "attn.k_proj"},
          {layer + "attn.v", file_layer + "attn.v_proj"},
          {layer + "attn.o", file_layer + "attn.out_proj"},
          {layer + "ffn.up", file_layer + "mlp.fc_in"},
          {layer + "ffn.down", file_layer + "mlp.fc_out"},
          {"decoder.norm", "transformer.ln_f"},
          {"head.lm", "lm_head"},
          {"head.classifier", "score"}};
}

}  // namespace

const Family kGptj = {.type = "gptj",
                      .prefix = "transformer.",
                      .read = read_gptj,
                      .names = gptj_names,
                      .ignored = {".attn.bias", ".attn.masked_bias"}};

}  // namespace makar
