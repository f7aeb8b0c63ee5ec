// BERT (Devlin et al., 2018): a bidirectional post-norm encoder with token types, and its heads.
#include "models/families/pages.h"

namespace makar {

ModelSpec read_bert_like(Reader& r, const char* family, const char* model) {
  ModelSpec m;
  m.family = family;
  StackSpec s;
  s.name = "encoder";
  s.width = r.width({"hidden_size", "dim"});
  const int64_t layers = r.layers({"num_hidden_layers", "n_layers"});
  s.final_norm = false;
  BlockSpec b;
  EmbeddingSpec& e = s.embedding;
  b.norm_position = NormPosition::kPost;
  s.norm.eps = r.number_or("layer_norm_eps", 1e-12, 0, 1);
  AttentionSpec& a = b.attention;
  a.causal = false;
  r.full_heads(a, s.width, {"num_attention_heads", "n_heads"});
  a.qkv_bias = a.out_bias = b.feed_forward.bias = true;
  a.dropout = r.dropout_or({"attention_probs_dropout_prob", "attention_dropout"}, 0.1);
  b.feed_forward.width = r.integer({"intermediate_size", "hidden_dim"}, 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation({"hidden_act", "activation"}, "gelu");
  b.dropout = e.dropout = r.dropout_or({"hidden_dropout_prob", "dropout"}, 0.1);
  e.vocab = m.vocab = r.vocab("vocab_size");
  e.max_positions = m.max_positions = r.positions_or("max_position_embeddings", 512);
  e.width = r.width_or("embedding_size", s.width);
  e.types = r.integer_or("type_vocab_size", 2, 0, 65536);
  e.positions = PositionKind::kLearned;
  e.norm = true;
  m.head.kind = r.head(model, m);
  HeadSpec& h = m.head;
  h.tied = r.flag_or("tie_word_embeddings", true);
  if (h.kind == HeadKind::kMaskedLm || h.kind == HeadKind::kPretraining) {
    h.lm_bias = h.transform = true;
    h.transform_width = e.width;
    h.transform_activation = b.feed_forward.activation;
  }
  if (h.kind == HeadKind::kSequenceClass || h.kind == HeadKind::kTokenClass) h.labels = r.labels();
  h.pooler = (h.kind == HeadKind::kNone && r.flag_or("add_pooling_layer", true)) ||
             h.kind == HeadKind::kPretraining || h.kind == HeadKind::kSequenceClass;
  h.pool = PoolKind::kPooler;
  r.special_tokens(m, -1, -1, 0);
  e.padding = m.pad;
  r.unsupported(r.flag_or("is_decoder", false), "is_decoder", "is not supported in an encoder family");
  r.unsupported(r.text_or("position_embedding_type", "absolute") != "absolute", "position_embedding_type",
                "other than absolute is not supported");
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.encoder = s;
  return m;
}

std::vector<NameRule> bert_body_names(const std::string& file_prefix) {
  const std::string layer = "encoder.layers.{}.", file_layer = file_prefix + "encoder.layer.{}.";
  return {{"encoder.embed.tokens", file_prefix + "embeddings.word_embeddings"},
          {"encoder.embed.positions", file_prefix + "embeddings.position_embeddings"},
          {"encoder.embed.types", file_prefix + "embeddings.token_type_embeddings"},
          {"encoder.embed.norm", file_prefix + "embeddings.LayerNorm"},
          {layer + "attn.q", file_layer + "attention.self.query"},
          {layer + "attn.k", file_layer + "attention.self.key"},
          {layer + "attn.v", file_layer + "attention.self.value"},
          {layer + "attn.o", file_layer + "attention.output.dense"},
          {layer + "norm1", file_layer + "attention.output.LayerNorm"},
          {layer + "ffn.up", file_layer + "intermediate.dense"},
          {layer + "ffn.down", file_layer + "output.dense"},
          {layer + "norm2", file_layer + "output.LayerNorm"},
          {"head.pooler", file_prefix + "pooler.dense"}};
}

GgufSection bert_gguf(const char* model) {
  return {
      .architecture = "bert",
      .model = model,
      .keys = gguf::hf_sizes() + gguf::norm_key("layer_norm_eps") +
              GgufKeys{{"attention.causal", "", GgufKey::kFlag, false, [](const ModelSpec&) { return 0.0; }},
                       {"pooling_type", "", GgufKey::kInteger, false,  // the mean
                        [](const ModelSpec&) { return 1.0; }}},
      .implied = {{"hidden_act", "gelu"}, {"position_embedding_type", "absolute"}},
      .names = gguf::encoder_names,
      .body_only = true,
      .derive = [](const Gguf& file, Json& config) {
        const GgufTensor* types = file.find("token_types.weight");
        config["type_vocab_size"] = types && types->shape.rank() == 2 ? types->shape[0] : 0;
        config["add_pooling_layer"] = false;
      }};
}

namespace {

Result<ModelSpec> read_bert(const Config& config) {
  Reader r(config);
  return r.finish(read_bert_like(r, "bert", "Bert"));
}

std::vector<NameRule> bert_names(const ModelSpec&) {
  std::vector<NameRule> rules = bert_body_names("bert.");
  rules.insert(rules.end(), {{"head.transform", "cls.predictions.transform.dense"},
                             {"head.transform_norm", "cls.predictions.transform.LayerNorm"},
                             {"head.lm.bias", "cls.predictions.bias"},
                             {"head.lm.weight", "cls.predictions.decoder.weight"},
                             {"head.next_sentence", "cls.seq_relationship"},
                             {"head.classifier", "classifier"},
                             {"head.answer", "qa_outputs"}});
  return rules;
}

const GgufSection kBertGguf = bert_gguf("BertModel");

}  // namespace

const Family kBert = {
    .type = "bert",
    .prefix = "bert.",
    .read = read_bert,
    .names = bert_names,
    .ignored = {"embeddings.position_ids", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"},
    .gguf = &kBertGguf};

}  // namespace makar
