// GPT-NeoX (Black et al., 2022): attention and feed-forward in parallel, partial rotary positions, query, key
// and value fused per head.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_neox(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "gpt_neox";
  StackSpec s;
  s.name = "decoder";
  s.width = r.width("hidden_size");
  const int64_t layers = r.layers("num_hidden_layers");
  BlockSpec b;
  s.norm.eps = r.number_or("layer_norm_eps", 1e-5, 0, 1);
  b.parallel = r.flag_or("use_parallel_residual", true);
  AttentionSpec& a = b.attention;
  r.full_heads(a, s.width, "num_attention_heads");
  a.qkv_bias = a.out_bias = r.flag_or("attention_bias", true);
  a.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = r.width_or("intermediate_size", 4 * s.width);
  b.feed_forward.activation = r.activation("hidden_act", "gelu");
  b.feed_forward.bias = true;
  b.dropout = s.embedding.dropout = r.dropout_or("hidden_dropout", 0.0);
  m.vocab = r.vocab("vocab_size");
  m.max_positions = r.positions_or("max_position_embeddings", 2048);
  a.rope = r.rope(a.head_dim, 10000.0, m.max_positions, 0.25);
  s.embedding.vocab = m.vocab;
  s.embedding.width = s.width;
  m.head.kind = r.head("GPTNeoX", m);
  m.head.tied = r.flag_or("tie_word_embeddings", false);
  last_token_classifier(r, m);
  r.special_tokens(m, 0, 2, -1);
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.decoder = s;
  return r.finish(m);
}

std::vector<NameRule> neox_names(const ModelSpec& spec) {
  const std::string layer = "decoder.layers.{}.", file_layer = "gpt_neox.layers.{}.";
  return {{"decoder.embed.tokens", "gpt_neox.embed_in"},
          {layer + "norm1", file_layer + "input_layernorm"},
          {layer + "norm2", file_layer + "post_attention_layernorm"},
          {{layer + "attn.q", layer + "attn.k", layer + "attn.v"},
           file_layer + "attention.query_key_value",
           spec.decoder->first().attention.heads},
          {layer + "attn.o", file_layer + "attention.dense"},
          {layer + "ffn.up", file_layer + "mlp.dense_h_to_4h"},
          {layer + "ffn.down", file_layer + "mlp.dense_4h_to_h"},
          {"decoder.norm", "gpt_neox.final_layer_norm"},
          {"head.lm", "embed_out"},
          {"head.classifier", "score"}};
}

std::vector<NameRule> neox_names_in_memory(const ModelSpec& spec) {
  std::vector<NameRule> rules = neox_names(spec);
  for (NameRule& rule : rules)
    if (rule.tensor_name == "embed_out") rule.tensor_name = "lm_head";
  return rules;
}

double neox_parallel(const ModelSpec& m) { return m.main().first().parallel; }

const GgufSection kNeoxGguf = {
    .architecture = "gptneox",
    .model = "GPTNeoXForCausalLM",
    .keys = gguf::hf_sizes() + gguf::norm_key("layer_norm_eps") +
            GgufKeys{{"use_parallel_residual", "use_parallel_residual", GgufKey::kFlag, false, neox_parallel},
                     {"rope.dimension_count", "", GgufKey::kInteger, true, gguf::rotary},
                     {"rope.freq_base", "rope_theta", GgufKey::kReal, false, gguf::theta}},
    .implied = {{"hidden_act", "gelu"}, {"attention_bias", true}},
    .names = gguf::fused_names,
    .rotary_share = "rotary_pct"};

}  // namespace

const Family kNeox = {
    .type = "gpt_neox",
    .prefix = "gpt_neox.",
    .read = read_neox,
    .names = neox_names,
    .names_in_memory = neox_names_in_memory,
    .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq", "embed_out.weight"},
    .gguf = &kNeoxGguf};

}  // namespace makar
