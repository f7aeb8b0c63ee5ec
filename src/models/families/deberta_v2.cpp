// DeBERTa V2 and V3 (He et al., 2021): BERT with disentangled attention to content and distance.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_deberta_v2(const Config& config) {
  Reader r(config);
  ModelSpec m = read_bert_like(r, "deberta-v2", "DebertaV2");
  StackSpec& s = *m.encoder;
  s.norm.eps = r.number_or("layer_norm_eps", 1e-7, 0, 1);
  s.embedding.types = r.integer_or("type_vocab_size", 0, 0, 65536);
  if (!r.flag_or("position_biased_input", true)) s.embedding.positions = PositionKind::kNone;
  const bool relative = r.flag_or("relative_attention", false);
  RelativeSpec p;
  p.buckets = r.integer_or("position_buckets", -1, -1, 65536);
  p.max_distance = r.integer_or("max_relative_positions", -1, -1, 1 << 20);
  if (p.max_distance < 1) p.max_distance = s.embedding.max_positions;
  p.span = p.buckets > 0 ? p.buckets : p.max_distance;
  r.require(p.buckets < 1 || (p.buckets >= 4 && p.max_distance > p.buckets / 2 + 1), "position_buckets",
            "must be at least 4, and half of it plus 1 below max_relative_positions (default: "
            "max_position_embeddings)");
  p.norm = r.text_or("norm_rel_ebd", "none").find("layer_norm") != std::string::npos;
  // A list in newer configs, a string separated by "|" in older ones.
  std::string kinds;
  const auto list = config.json().find("pos_att_type");
  if (list != config.json().end() && list->is_array())
    for (const std::string& kind : r.texts_or("pos_att_type")) kinds += kind + "|";
  else
    kinds = r.text_or("pos_att_type", "");
  p.content_to_position = kinds.find("c2p") != std::string::npos;
  p.position_to_content = kinds.find("p2c") != std::string::npos;
  p.own_projections = !r.flag_or("share_att_key", false);
  if (const int64_t kernel_size = r.integer_or("conv_kernel_size", 0, 0, 1023); kernel_size > 0) {
    r.require(kernel_size % 2 == 1, "conv_kernel_size", "must be odd");
    r.unsupported(r.integer_or("conv_groups", 1, 1, 1 << 20) != 1, "conv_groups",
                  "must be 1; convolutions in groups are not supported");
    s.convolution = {kernel_size, r.activation("conv_act", "tanh")};
  }
  const int score_terms = 1 + (p.content_to_position ? 1 : 0) + (p.position_to_content ? 1 : 0);
  if (relative)
    for (BlockSpec& b : s.blocks) {
      b.attention.relative = p;
      b.attention.scale = 1.0f / std::sqrt(static_cast<float>(b.attention.head_dim * score_terms));
    }
  HeadSpec& h = m.head;
  h.pooler = false;
  h.pool = PoolKind::kFirst;
  h.classifier_dense = h.kind == HeadKind::kSequenceClass;
  h.classifier_activation = r.activation("pooler_hidden_act", "gelu");
  r.unsupported(r.width_or("pooler_hidden_size", s.width) != s.width, "pooler_hidden_size",
                "other than hidden_size is not supported");
  r.unsupported(h.kind == HeadKind::kPretraining, "architectures", "has a head that DeBERTa does not have");
  return r.finish(m);
}

std::vector<NameRule> deberta_v2_names(const ModelSpec&) {
  const std::string layer = "encoder.layers.{}.", file_layer = "deberta.encoder.layer.{}.";
  return with_names(bert_body_names("deberta."),
                    {{layer + "attn.q", file_layer + "attention.self.query_proj"},
                     {layer + "attn.k", file_layer + "attention.self.key_proj"},
                     {layer + "attn.v", file_layer + "attention.self.value_proj"},
                     {layer + "attn.distance_key", file_layer + "attention.self.pos_key_proj"},
                     {layer + "attn.distance_query", file_layer + "attention.self.pos_query_proj"},
                     {"encoder.conv", "deberta.encoder.conv.conv"},
                     {"encoder.conv.norm", "deberta.encoder.conv.LayerNorm"},
                     {"encoder.relative", "deberta.encoder.rel_embeddings"},
                     {"encoder.relative_norm", "deberta.encoder.LayerNorm"},
                     {"head.transform", "cls.predictions.transform.dense"},
                     {"head.transform_norm", "cls.predictions.transform.LayerNorm"},
                     {"head.lm.bias", "cls.predictions.bias"},
                     {"head.lm.weight", "cls.predictions.decoder.weight"},
                     {"head.dense", "pooler.dense"},
                     {"head.classifier", "classifier"},
                     {"head.answer", "qa_outputs"}});
}

}  // namespace

const Family kDebertaV2 = {
    .type = "deberta-v2",
    .prefix = "deberta.",
    .read = read_deberta_v2,
    .names = deberta_v2_names,
    .ignored = {"embeddings.position_ids", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                "lm_predictions.", "mask_predictions."}};

}  // namespace makar
