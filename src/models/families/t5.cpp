// T5 (Raffel et al., 2019), mT5 (Xue et al., 2021) and UMT5 (Chung et al., 2023): encoder-decoders with
// RMSNorm, unscaled attention and learned biases per distance bucket; UMT5 has a table of biases in each
// layer.
#include "models/families/pages.h"

namespace makar {
namespace {

StackSpec read_stack(Reader& r, const char* name, int64_t layers, bool decoder, const std::string& family) {
  StackSpec s;
  s.name = name;
  s.width = r.width("d_model");
  BlockSpec b;
  s.norm.kind = NormSpec::Kind::kRms;
  s.norm.eps = r.number_or("layer_norm_epsilon", 1e-6, 0, 1);
  AttentionSpec& a = b.attention;
  a.causal = decoder;
  a.heads = a.kv_heads = r.heads("num_heads");
  a.head_dim = r.integer("d_kv", 1, 65536);
  a.scale = 1.0f;
  a.bias = BiasKind::kT5;
  a.bias_per_layer = family == "umt5";
  a.t5_buckets = r.integer_or("relative_attention_num_buckets", 32, 2, 65536);
  a.t5_max_distance = r.integer_or("relative_attention_max_distance", 128, 2, int64_t{1} << 24);
  r.require(a.t5_buckets % 4 == 0 || a.t5_buckets == 2, "relative_attention_num_buckets",
            "must be a multiple of 4");
  r.require(a.t5_max_distance > a.t5_buckets / 2, "relative_attention_max_distance",
            "must be more than half the buckets");
  a.dropout = b.dropout = s.embedding.dropout = r.dropout_or("dropout_rate", 0.1);
  if (decoder) {
    b.cross = a;
    b.cross->causal = false;
    b.cross->bias = BiasKind::kNone;
  }
  // "relu", "gated-gelu", "gated-silu"; "gated-gelu" is the tanh approximation, as in the original.
  std::string form = r.text_or("feed_forward_proj", family == "t5" ? "relu" : "gated-gelu");
  b.feed_forward.gated = form.rfind("gated-", 0) == 0;
  if (b.feed_forward.gated) form = form.substr(6);
  if (b.feed_forward.gated && form == "gelu") form = "gelu_new";
  b.feed_forward.activation = r.activation("dense_act_fn", form);
  b.feed_forward.width = r.integer("d_ff", 1, int64_t{1} << 20);
  s.embedding.vocab = r.vocab("vocab_size");
  s.embedding.width = s.width;
  s.blocks.assign(static_cast<size_t>(layers), b);
  return s;
}

Result<ModelSpec> read_as(const Config& config, const char* family, const char* model) {
  Reader r(config);
  ModelSpec m;
  m.family = family;
  const int64_t layers = r.layers("num_layers");
  m.encoder = read_stack(r, "encoder", layers, false, family);
  m.decoder = read_stack(r, "decoder", r.integer_or("num_decoder_layers", layers, 1, 1024), true, family);
  m.vocab = m.encoder->embedding.vocab;
  m.head.kind = r.head(model, m);
  m.head.tied = r.flag_or("tie_word_embeddings", m.family == "t5");
  if (r.flag_or("scale_decoder_outputs", m.head.tied && m.family != "mt5"))
    m.head.scale = 1.0f / std::sqrt(static_cast<float>(m.encoder->width));
  r.special_tokens(m, -1, 1, 0);
  if (m.decoder_start < 0) m.decoder_start = m.pad;
  r.unsupported(m.head.kind != HeadKind::kCausalLm && m.head.kind != HeadKind::kNone, "architectures",
                "has a head that is not supported for T5");
  return r.finish(m);
}

Result<ModelSpec> read(const Config& config) { return read_as(config, "t5", "T5"); }
Result<ModelSpec> read_mt5(const Config& config) { return read_as(config, "mt5", "MT5"); }
Result<ModelSpec> read_umt5(const Config& config) { return read_as(config, "umt5", "UMT5"); }

void add_stack(std::vector<NameRule>& rules, const std::string& stack, bool gated, bool decoder) {
  const std::string ours = stack + ".layers.{}.", theirs = stack + ".block.{}.layer.";
  const auto attention = [&](const std::string& part, const std::string& name) {
    for (const char* p : {"q", "k", "v", "o"})
      rules.emplace_back(ours + part + "." + p, theirs + name + "." + p);
  };
  attention("attn", "0.SelfAttention");
  rules.emplace_back(ours + "norm1", theirs + "0.layer_norm");
  if (decoder) {
    attention("cross", "1.EncDecAttention");
    rules.emplace_back(ours + "norm_cross", theirs + "1.layer_norm");
  }
  const std::string last = theirs + (decoder ? "2." : "1.");
  if (gated) rules.emplace_back(ours + "ffn.gate", last + "DenseReluDense.wi_0");
  rules.emplace_back(ours + "ffn.up", last + (gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"));
  rules.emplace_back(ours + "ffn.down", last + "DenseReluDense.wo");
  rules.emplace_back(ours + "norm2", last + "layer_norm");
  rules.emplace_back(stack + ".relative_bias",
                     stack + ".block.0.layer.0.SelfAttention.relative_attention_bias");
  rules.emplace_back(ours + "attn.relative_bias", theirs + "0.SelfAttention.relative_attention_bias");
  rules.emplace_back(stack + ".norm", stack + ".final_layer_norm");
}

std::vector<NameRule> names(const ModelSpec& spec) {
  std::vector<NameRule> rules = {{"encoder.embed.tokens", "shared"}};
  add_stack(rules, "encoder", spec.encoder->first().feed_forward.gated, false);
  add_stack(rules, "decoder", spec.decoder->first().feed_forward.gated, true);
  rules.emplace_back("head.lm", "lm_head");
  return rules;
}

std::vector<NameRule> gguf_names(const ModelSpec&) {
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

GgufKeys gguf_keys() {
  using Kind = GgufKey::Kind;
  return gguf::sizes("d_model", "num_layers", "num_heads", "d_ff", "n_positions") +
         GgufKeys{
             {"decoder_block_count", "num_decoder_layers", Kind::kInteger, false,
              [](const ModelSpec& m) { return static_cast<double>(m.decoder->layers()); }},
             {"attention.key_length", "d_kv", Kind::kInteger, true, gguf::head_dim},
             {"attention.value_length", "", Kind::kInteger, false, gguf::head_dim},
             {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::kReal, false, gguf::eps},
             {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", Kind::kReal, false, gguf::eps},
             {"attention.relative_buckets_count", "relative_attention_num_buckets", Kind::kInteger, true,
              [](const ModelSpec& m) { return static_cast<double>(m.main().first().attention.t5_buckets); }},
             {"decoder_start_token_id", "decoder_start_token_id", Kind::kInteger, false,
              [](const ModelSpec& m) { return static_cast<double>(m.decoder_start); }}};
}

std::string beyond(const ModelSpec& m) {
  const std::string form = m.config.value("feed_forward_proj", "relu");
  return form == "relu" || form == "gated-gelu" ? "" : "feed_forward_proj = " + form;
}

GgufSection section(bool (*holds)(const GgufFields&)) {
  return {.architecture = "t5",
          .model = "T5ForConditionalGeneration",
          .keys = gguf_keys(),
          .implied = {{"relative_attention_max_distance", 128}},
          .names = gguf_names,
          .marks = {{"feed_forward_proj", "enc.blk.0.ffn_gate.weight", "gated-gelu", "relu"}},
          .holds = holds,
          .beyond = beyond};
}
const GgufSection kGguf = section(nullptr);
// mT5 is stored as T5, and read as such.
const GgufSection kGgufMt5 = section([](const GgufFields&) { return false; });

Family make(const char* type, Result<ModelSpec> (*reader)(const Config&), const GgufSection* gguf) {
  return {.type = type,
          .prefix = "",
          .read = reader,
          .names = names,
          .ignored = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                      "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
          .gguf = gguf};
}

}  // namespace

const Family kT5 = make("t5", read, &kGguf);
const Family kMt5 = make("mt5", read_mt5, &kGgufMt5);
const Family kUmt5 = make("umt5", read_umt5, nullptr);

}  // namespace makar
