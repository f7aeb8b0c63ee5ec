// Gemma 2 (Gemma Team, 2024): norms before and after each sublayer with weights stored as w - 1, soft caps, a
// sliding window in every other layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.max_positions = 8192, d.activation = "gelu_pytorch_tanh";
  ModelSpec m = read_llama_like(r, "gemma2", "Gemma2", d);
  StackSpec& s = *m.decoder;
  s.norm.offset = 1.0f;
  AttentionSpec a = s.first().attention;
  if (!r.has("head_dim")) {
    a.head_dim = 256;
    a.rope = r.rope(a.head_dim, 10000.0, m.max_positions);
  }
  a.scale = 1.0f / std::sqrt(r.number_or("query_pre_attn_scalar", 256.0, 1e-6, 1e9));
  a.soft_cap =
      r.has("attn_logit_softcapping") ? r.number_or("attn_logit_softcapping", 50.0, 1e-6, 1e9) : 0.0f;
  for (BlockSpec& b : s.blocks) b.place = NormPlace::kSandwich, b.attention = a;
  m.head.soft_cap =
      r.has("final_logit_softcapping") ? r.number_or("final_logit_softcapping", 30.0, 1e-6, 1e9) : 0.0f;
  m.head.tied = r.flag_or("tie_word_embeddings", true);
  s.embedding.scale = std::sqrt(static_cast<float>(s.width));
  r.windows(s, r.integer_or("sliding_window", 4096, 0, int64_t{1} << 40), "even");
  r.unsupported(r.flag_or("use_bidirectional_attention", false), "use_bidirectional_attention",
                "is not supported");
  return r.finish(m);
}

std::vector<NameRule> names(const ModelSpec& spec) {
  std::vector<NameRule> rules;
  for (const NameRule& rule : llama_names(spec))
    if (rule.ours[0].find(".norm2") == std::string::npos) rules.push_back(rule);
  const std::string ours = "decoder.layers.{}.", theirs = "model.layers.{}.";
  rules.insert(rules.end(), {{ours + "norm1_after", theirs + "post_attention_layernorm"},
                             {ours + "norm2", theirs + "pre_feedforward_layernorm"},
                             {ours + "norm2_after", theirs + "post_feedforward_layernorm"}});
  return rules;
}

}  // namespace

const Family kGemma2 = {"gemma2", "model.", read, names, nullptr, {".rotary_emb.inv_freq", "lm_head.weight"}};

}  // namespace makar
