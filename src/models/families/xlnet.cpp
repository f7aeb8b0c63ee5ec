// XLNet (Yang et al., 2019): an encoder with the relative attention of Transformer-XL and segments. Its
// pretraining predicts tokens in a permuted order, from a second stream of rows that start as a learned
// vector.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_xlnet(const Config& config) {
  Reader r(config);
  ModelSpec m;
  m.family = "xlnet";
  StackSpec s;
  s.name = "encoder";
  s.width = r.width({"d_model", "hidden_size"});
  s.norm.eps = r.number_or("layer_norm_eps", 1e-12, 0, 1);
  s.final_norm = false;
  BlockSpec b;
  b.norm_position = NormPosition::kPost;
  AttentionSpec& a = b.attention;
  a.causal = false;
  a.heads = a.kv_heads = r.heads({"n_head", "num_attention_heads"});
  a.head_dim = r.head_dim(s.width, a.heads, "n_head");
  r.require(r.integer_or("d_head", a.head_dim, 1, 65536) == a.head_dim, "d_head", "is not d_model / n_head");
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  RelativeSpec& p = a.relative.emplace();
  p.kind = RelativeSpec::Kind::kXl;
  b.feed_forward.width = r.integer("d_inner", 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation("ff_activation", "gelu");
  b.feed_forward.bias = true;
  b.dropout = a.dropout = s.embedding.dropout = r.dropout_or("dropout", 0.1);
  s.embedding.vocab = m.vocab = r.vocab("vocab_size");
  s.embedding.width = s.width;
  r.unsupported(r.text_or("attn_type", "bi") != "bi", "attn_type", "other than bi is not supported");
  r.unsupported(r.integer_or("clamp_len", -1, -1, 1 << 20) > 0, "clamp_len", "above 0 is not supported");
  r.unsupported(r.flag_or("untie_r", true) == false, "untie_r", "is false, which is not supported");
  r.unsupported(r.flag_or("bi_data", false), "bi_data", "is true, which is not supported");
  s.blocks.assign(static_cast<size_t>(r.layers({"n_layer", "num_hidden_layers"})), b);
  const std::string architecture =
      config.json().contains("architectures") && config.json()["architectures"].is_array() &&
              !config.json()["architectures"].empty() && config.json()["architectures"][0].is_string()
          ? config.json()["architectures"][0].get<std::string>()
          : "";
  HeadSpec& h = m.head;
  if (architecture == "XLNetLMHeadModel") {
    h.kind = HeadKind::kMaskedLm;
    m.architecture = architecture;
    h.lm_bias = true;
  } else {
    h.kind = r.head("XLNet", m);
  }
  h.tied = r.flag_or("tie_word_embeddings", true);
  if (h.kind == HeadKind::kSequenceClass || h.kind == HeadKind::kTokenClass) h.labels = r.labels();
  h.pool = PoolKind::kLast;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  r.unsupported(r.text_or("summary_type", "last") != "last", "summary_type",
                "other than last is not supported");
  r.unsupported(h.kind == HeadKind::kQuestion, "architectures",
                "has question answering with beam search, which is not supported");
  r.special_tokens(m, 1, 2, 5);
  m.encoder = s;
  return r.finish(m);
}

std::vector<NameRule> xlnet_names(const ModelSpec& spec) {
  const std::string layer = "encoder.layers.{}.", attn = layer + "attn.",
                    file_layer = "transformer.layer.{}.", file_attn = file_layer + "rel_attn.";
  const int64_t heads = spec.encoder->first().attention.heads;
  const auto matrix = [&](const char* parameter, const char* file_name, bool transposed) {
    return NameRule(attn + parameter + ".weight", file_attn + file_name, transposed).with_heads(heads);
  };
  const bool sequence = spec.head.kind == HeadKind::kSequenceClass;
  return {{"encoder.embed.tokens", "transformer.word_embedding"},
          {"encoder.mask", "transformer.mask_emb"},
          matrix("q", "q", true),
          matrix("k", "k", true),
          matrix("v", "v", true),
          matrix("o", "o", false),
          matrix("distance", "r", true),
          {attn + "content_bias", file_attn + "r_w_bias"},
          {attn + "distance_bias", file_attn + "r_r_bias"},
          {attn + "segment_bias", file_attn + "r_s_bias"},
          NameRule(attn + "segments", file_attn + "seg_embed").with_heads(heads),
          {layer + "norm1", file_attn + "layer_norm"},
          {layer + "ffn.up", file_layer + "ff.layer_1"},
          {layer + "ffn.down", file_layer + "ff.layer_2"},
          {layer + "norm2", file_layer + "ff.layer_norm"},
          {"head.lm.bias", "lm_loss.bias"},
          {"head.lm.weight", "lm_loss.weight"},
          {"head.dense", "sequence_summary.summary"},
          {"head.classifier", sequence ? "logits_proj" : "classifier"}};
}

}  // namespace

const Family kXlnet = {.type = "xlnet",
                       .prefix = "transformer.",
                       .read = read_xlnet,
                       .names = xlnet_names,
                       .ignored = {"lm_loss.weight"}};

}  // namespace makar
