#include "models/gguf_architecture.h"

#include <algorithm>

#include "base/nearest.h"
#include "base/quote.h"

namespace makar {
namespace {

using Kind = GgufKey::Kind;

// --- values of a spec ---

const AttentionSpec& attention(const ModelSpec& m) { return m.main().first().attention; }
double width(const ModelSpec& m) { return static_cast<double>(m.main().width); }
double layers(const ModelSpec& m) {
  return static_cast<double>(m.encoder && m.decoder ? m.encoder->layers() : m.main().layers());
}
double decoder_layers(const ModelSpec& m) { return static_cast<double>(m.decoder->layers()); }
double feed_forward(const ModelSpec& m) { return static_cast<double>(m.main().first().feed_forward.width); }
double heads(const ModelSpec& m) { return static_cast<double>(attention(m).heads); }
double kv_heads(const ModelSpec& m) { return static_cast<double>(attention(m).kv_heads); }
double head_dim(const ModelSpec& m) { return static_cast<double>(attention(m).head_dim); }
double eps(const ModelSpec& m) { return m.main().norm.eps; }
double positions(const ModelSpec& m) {
  return static_cast<double>(m.max_positions > 0 ? m.max_positions : 2048);
}
double theta(const ModelSpec& m) { return attention(m).rope ? attention(m).rope->theta : -1; }
double rotary(const ModelSpec& m) {
  return attention(m).rope ? static_cast<double>(attention(m).rope->rotary) : -1;
}
double vocab(const ModelSpec& m) { return static_cast<double>(m.vocab); }
double experts(const ModelSpec& m) { return static_cast<double>(m.main().first().feed_forward.experts); }
double experts_used(const ModelSpec& m) {
  return static_cast<double>(m.main().first().feed_forward.experts_per_token);
}
double window(const ModelSpec& m) {
  double widest = -1;
  for (const BlockSpec& b : m.main().blocks)
    if (b.attention.window > 0) widest = std::max(widest, static_cast<double>(b.attention.window));
  return widest;
}
double soft_cap(const ModelSpec& m) { return attention(m).soft_cap > 0 ? attention(m).soft_cap : -1; }
double head_soft_cap(const ModelSpec& m) { return m.head.soft_cap > 0 ? m.head.soft_cap : -1; }
double parallel(const ModelSpec& m) { return m.main().first().parallel; }
double buckets(const ModelSpec& m) { return static_cast<double>(attention(m).t5_buckets); }
double decoder_start(const ModelSpec& m) { return static_cast<double>(m.decoder_start); }
double none(const ModelSpec&) { return 0; }
double alibi(const ModelSpec&) { return 8; }

// --- tables of keys ---

std::vector<GgufKey> sizes(const char* width_field, const char* layers_field, const char* heads_field,
                           const char* feed_forward_field, const char* positions_field) {
  return {{"vocab_size", "", Kind::kInteger, false, vocab},
          {"context_length", positions_field, Kind::kInteger, true, positions},
          {"embedding_length", width_field, Kind::kInteger, true, width},
          {"block_count", layers_field, Kind::kInteger, true, layers},
          {"feed_forward_length", feed_forward_field, Kind::kInteger, true, feed_forward},
          {"attention.head_count", heads_field, Kind::kInteger, true, heads}};
}
std::vector<GgufKey> hf_sizes() {
  return sizes("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
               "max_position_embeddings");
}
std::vector<GgufKey> operator+(std::vector<GgufKey> a, const std::vector<GgufKey>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<GgufKey> llama_keys() {
  return hf_sizes() + std::vector<GgufKey>{
                          {"attention.head_count_kv", "num_key_value_heads", Kind::kInteger, false, kv_heads},
                          {"attention.key_length", "head_dim", Kind::kInteger, false, head_dim},
                          {"attention.value_length", "", Kind::kInteger, false, head_dim},
                          {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::kReal, true, eps},
                          {"rope.dimension_count", "", Kind::kInteger, false, rotary},
                          {"rope.freq_base", "rope_theta", Kind::kReal, false, theta}};
}
const GgufKey kWindow = {"attention.sliding_window", "sliding_window", Kind::kInteger, false, window};
const GgufKey kLayerNorm = {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::kReal, true, eps};

// --- tables of names ---

struct BlockNames {
  bool fused = false;   // query, key and value are one concatenated tensor
  bool paired = false;  // rotary positions rotate adjacent pairs
  float norm_offset = 0;
};

std::vector<NameRule> decoder_names(const ModelSpec& spec, const BlockNames& b) {
  const std::string ours = "decoder.layers.{}.", theirs = "blk.{}.";
  const AttentionSpec& a = attention(spec);
  const auto norm = [&](const std::string& o, const std::string& t) {
    return NameRule(o, t).plus(b.norm_offset);
  };
  std::vector<NameRule> rules = {{"decoder.embed.tokens", "token_embd"},
                                 {"decoder.embed.positions", "position_embd"},
                                 {"decoder.embed.norm", "token_embd_norm"},
                                 norm("decoder.norm", "output_norm"),
                                 {"head.lm", "output"},
                                 norm(ours + "norm1", theirs + "attn_norm"),
                                 {ours + "attn.o", theirs + "attn_output"},
                                 {ours + "attn.q_norm", theirs + "attn_q_norm"},
                                 {ours + "attn.k_norm", theirs + "attn_k_norm"},
                                 norm(ours + "norm1_after", theirs + "post_attention_norm"),
                                 norm(ours + "norm2", theirs + "ffn_norm"),
                                 norm(ours + "norm2_after", theirs + "post_ffw_norm"),
                                 {ours + "ffn.gate", theirs + "ffn_gate"},
                                 {ours + "ffn.up", theirs + "ffn_up"},
                                 {ours + "ffn.down", theirs + "ffn_down"},
                                 {ours + "ffn.router", theirs + "ffn_gate_inp"},
                                 {ours + "ffn.experts.{e}.gate", theirs + "ffn_gate_exps.weight"},
                                 {ours + "ffn.experts.{e}.up", theirs + "ffn_up_exps.weight"},
                                 {ours + "ffn.experts.{e}.down", theirs + "ffn_down_exps.weight"}};
  if (b.fused) {
    rules.push_back({{ours + "attn.q", ours + "attn.k", ours + "attn.v"}, theirs + "attn_qkv", 1});
    return rules;
  }
  rules.push_back(NameRule(ours + "attn.q", theirs + "attn_q").paired(b.paired ? a.heads : 0));
  rules.push_back(NameRule(ours + "attn.k", theirs + "attn_k").paired(b.paired ? a.kv_heads : 0));
  rules.push_back({ours + "attn.v", theirs + "attn_v"});
  return rules;
}

std::vector<NameRule> plain_names(const ModelSpec& m) { return decoder_names(m, {}); }
std::vector<NameRule> paired_names(const ModelSpec& m) { return decoder_names(m, {false, true, 0}); }
std::vector<NameRule> fused_names(const ModelSpec& m) { return decoder_names(m, {true, false, 0}); }
std::vector<NameRule> gemma_names(const ModelSpec& m) { return decoder_names(m, {false, false, 1}); }

// One tensor per expert (files of 2023), or gate and up of all experts in one tensor.
std::vector<NameRule> single_expert_names(const ModelSpec& m) {
  std::vector<NameRule> rules = paired_names(m);
  for (NameRule& rule : rules)
    if (const size_t at = rule.theirs.find("_exps.weight"); at != std::string::npos)
      rule.theirs.replace(at, std::string::npos, ".{e}");
  return rules;
}
std::vector<NameRule> merged_expert_names(const ModelSpec& m) {
  std::vector<NameRule> rules = paired_names(m);
  std::erase_if(rules, [](const NameRule& r) { return r.theirs.find("ffn_up_exps") != std::string::npos; });
  for (NameRule& rule : rules)
    if (rule.theirs.ends_with("ffn_gate_exps.weight")) {
      rule.ours.push_back("decoder.layers.{}.ffn.experts.{e}.up");
      rule.theirs = "blk.{}.ffn_gate_up_exps.weight";
    }
  return rules;
}

// With two parallel norms, the second one belongs to attention.
std::vector<NameRule> falcon_names(const ModelSpec& m) {
  std::vector<NameRule> rules = fused_names(m);
  const BlockSpec& b = m.decoder->first();
  if (!b.parallel || b.shared_norm) return rules;
  for (NameRule& rule : rules)
    if (rule.ours[0].ends_with(".norm1"))
      rule.theirs = "blk.{}.attn_norm_2";
    else if (rule.ours[0].ends_with(".norm2"))
      rule.theirs = "blk.{}.attn_norm";
  return rules;
}

std::vector<NameRule> bert_names(const ModelSpec&) {
  const std::string ours = "encoder.layers.{}.", theirs = "blk.{}.";
  return {{"encoder.embed.tokens", "token_embd"},        {"encoder.embed.positions", "position_embd"},
          {"encoder.embed.types", "token_types"},        {"encoder.embed.norm", "token_embd_norm"},
          {ours + "attn.q", theirs + "attn_q"},          {ours + "attn.k", theirs + "attn_k"},
          {ours + "attn.v", theirs + "attn_v"},          {ours + "attn.o", theirs + "attn_output"},
          {ours + "norm1", theirs + "attn_output_norm"}, {ours + "ffn.up", theirs + "ffn_up"},
          {ours + "ffn.down", theirs + "ffn_down"},      {ours + "norm2", theirs + "layer_output_norm"}};
}

std::vector<NameRule> t5_names(const ModelSpec&) {
  std::vector<NameRule> rules = {{"encoder.embed.tokens", "token_embd"}, {"head.lm", "output"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string start = stack == "encoder" ? "enc." : "dec.", ours = stack + ".layers.{}.",
                      theirs = start + "blk.{}.";
    for (const char* part : {"q", "k", "v", "o"}) {
      rules.push_back({ours + "attn." + part, theirs + "attn_" + part});
      rules.push_back({ours + "cross." + part, theirs + "cross_attn_" + part});
    }
    for (const char* part : {"gate", "up", "down"})
      rules.push_back({ours + "ffn." + part, theirs + "ffn_" + part});
    rules.push_back({ours + "norm1", theirs + "attn_norm"});
    rules.push_back({ours + "norm_cross", theirs + "cross_attn_norm"});
    rules.push_back({ours + "norm2", theirs + "ffn_norm"});
    rules.push_back({stack + ".relative_bias", start + "blk.0.attn_rel_b"});
    rules.push_back({stack + ".norm", start + "output_norm"});
  }
  return rules;
}

// --- the architectures ---

using Keys = std::vector<GgufKey>;

const std::vector<GgufArchitecture>& architectures() {
  static const std::vector<GgufArchitecture> table = {
      {"llama",
       "llama",
       "LlamaForCausalLM",
       llama_keys(),
       {{"hidden_act", "silu"}, {"mlp_bias", false}},
       paired_names},
      {"llama",
       "mistral",
       "MistralForCausalLM",
       llama_keys() + Keys{kWindow},
       {{"hidden_act", "silu"}},
       paired_names},
      {"llama",
       "mixtral",
       "MixtralForCausalLM",
       llama_keys() + Keys{kWindow,
                           {"expert_count", "num_local_experts", Kind::kInteger, true, experts},
                           {"expert_used_count", "num_experts_per_tok", Kind::kInteger, true, experts_used}},
       {{"hidden_act", "silu"}},
       paired_names,
       {single_expert_names, merged_expert_names}},
      {"qwen2",
       "qwen2",
       "Qwen2ForCausalLM",
       llama_keys(),
       {{"hidden_act", "silu"}, {"use_sliding_window", false}},
       plain_names},
      {"qwen3",
       "qwen3",
       "Qwen3ForCausalLM",
       llama_keys(),
       {{"hidden_act", "silu"}, {"use_sliding_window", false}, {"attention_bias", false}},
       plain_names},
      {"gemma2",
       "gemma2",
       "Gemma2ForCausalLM",
       llama_keys() +
           Keys{kWindow,
                {"attn_logit_softcapping", "attn_logit_softcapping", Kind::kReal, false, soft_cap},
                {"final_logit_softcapping", "final_logit_softcapping", Kind::kReal, false, head_soft_cap}},
       {{"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", false}},
       gemma_names},
      {"gpt2",
       "gpt2",
       "GPT2LMHeadModel",
       sizes("n_embd", "n_layer", "n_head", "n_inner", "n_positions") + Keys{kLayerNorm},
       {{"activation_function", "gelu_new"}, {"scale_attn_weights", true}},
       fused_names},
      {"gptneox",
       "gpt_neox",
       "GPTNeoXForCausalLM",
       hf_sizes() + Keys{{"attention.layer_norm_epsilon", "layer_norm_eps", Kind::kReal, true, eps},
                         {"use_parallel_residual", "use_parallel_residual", Kind::kFlag, false, parallel},
                         {"rope.dimension_count", "", Kind::kInteger, true, rotary},
                         {"rope.freq_base", "rope_theta", Kind::kReal, false, theta}},
       {{"hidden_act", "gelu"}, {"attention_bias", true}},
       fused_names},
      {"falcon",
       "falcon",
       "FalconForCausalLM",
       sizes("hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_hidden_size",
             "max_position_embeddings") +
           Keys{kLayerNorm,
                {"attention.head_count_kv", "num_kv_heads", Kind::kInteger, true, kv_heads},
                {"rope.dimension_count", "", Kind::kInteger, false, rotary},
                {"rope.freq_base", "rope_theta", Kind::kReal, false, theta}},
       {{"alibi", false}, {"bias", false}, {"parallel_attn", true}},
       falcon_names},
      {"bloom",
       "bloom",
       "BloomForCausalLM",
       sizes("hidden_size", "n_layer", "n_head", "", "") +
           Keys{kLayerNorm,
                {"attention.head_count_kv", "", Kind::kInteger, false, kv_heads},
                {"attention.max_alibi_bias", "", Kind::kReal, false, alibi}},
       {{"apply_residual_connection_post_layernorm", false}},
       fused_names},
      {"bert",
       "bert",
       "BertModel",
       hf_sizes() + Keys{{"attention.layer_norm_epsilon", "layer_norm_eps", Kind::kReal, true, eps},
                         {"attention.causal", "", Kind::kFlag, false, none},
                         {"pooling_type", "", Kind::kInteger, false, [](const ModelSpec&) { return 1.0; }}},
       {{"hidden_act", "gelu"}, {"position_embedding_type", "absolute"}},
       bert_names},
      {"t5",
       "t5",
       "T5ForConditionalGeneration",
       sizes("d_model", "num_layers", "num_heads", "d_ff", "n_positions") +
           Keys{{"decoder_block_count", "num_decoder_layers", Kind::kInteger, false, decoder_layers},
                {"attention.key_length", "d_kv", Kind::kInteger, true, head_dim},
                {"attention.value_length", "", Kind::kInteger, false, head_dim},
                {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::kReal, false, eps},
                {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", Kind::kReal, false, eps},
                {"attention.relative_buckets_count", "relative_attention_num_buckets", Kind::kInteger, true,
                 buckets},
                {"decoder_start_token_id", "decoder_start_token_id", Kind::kInteger, false, decoder_start}},
       {{"relative_attention_max_distance", 128}},
       t5_names},
  };
  return table;
}

}  // namespace

Result<const GgufArchitecture*> find_gguf_architecture(const GgufFields& fields) {
  const auto name = fields.text("general.architecture");
  if (!name)
    return error_at("key 'general.architecture'",
                    "is missing or not a string; check that this is a model file");
  std::string model_type = *name;
  if (*name == "llama") {
    if (fields.integer("llama.attention.sliding_window").value_or(0) > 0) model_type = "mistral";
    if (fields.integer("llama.expert_count").value_or(0) > 0) model_type = "mixtral";
  }
  std::vector<std::string> known;
  for (const GgufArchitecture& a : architectures()) {
    if (*name == a.name && (model_type == a.model_type || *name != "llama")) return &a;
    if (known.empty() || known.back() != a.name) known.emplace_back(a.name);
  }
  return error_of(Error::Kind::kUnsupported, "key 'general.architecture'",
                  "is {}, which is not supported; supported are {}{}", quote(*name), fmt::join(known, ", "),
                  did_you_mean(*name, known));
}

const GgufArchitecture* gguf_architecture_of(const std::string& model_type) {
  // GGUF has no RoBERTa: it is stored as bert with the position rows before the first one removed
  // (gguf_save.cpp).
  const std::string type = model_type == "roberta" ? "bert" : model_type;
  for (const GgufArchitecture& a : architectures())
    if (type == a.model_type) return &a;
  return nullptr;
}

}  // namespace makar
