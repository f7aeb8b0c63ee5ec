// ViT (Dosovitskiy et al., 2020) and DeiT (Touvron et al., 2020): image patches as tokens, a class token, and
// for DeiT a distillation token.
#include "models/families/pages.h"

namespace makar {

ModelSpec read_vit_like(Reader& r, const char* family, const char* model, bool distillation) {
  ModelSpec m;
  m.family = family;
  StackSpec s;
  s.name = "encoder";
  s.width = r.width("hidden_size");
  const int64_t layers = r.layers("num_hidden_layers");
  s.record_before_norm = true;
  BlockSpec b;
  s.norm.eps = r.number_or("layer_norm_eps", 1e-12, 0, 1);
  AttentionSpec& a = b.attention;
  a.causal = false;
  r.full_heads(a, s.width, "num_attention_heads");
  a.qkv_bias = r.flag_or("qkv_bias", true);
  a.out_bias = true;
  a.dropout = r.dropout_or("attention_probs_dropout_prob", 0.0);
  b.feed_forward.width = r.integer("intermediate_size", 1, int64_t{1} << 20);
  b.feed_forward.activation = r.activation("hidden_act", "gelu");
  b.feed_forward.bias = true;
  b.dropout = s.embedding.dropout = r.dropout_or("hidden_dropout_prob", 0.0);
  PatchSpec p;
  p.image_height = p.image_width = r.integer_or("image_size", 224, 1, 16384);
  p.patch = r.integer_or("patch_size", 16, 1, 16384);
  p.channels = r.integer_or("num_channels", 3, 1, 1024);
  p.distillation_token = distillation;
  r.require(p.patch <= p.image_height, "patch_size", "is larger than the image");
  s.embedding.patches = p;
  s.embedding.width = s.width;
  m.head.kind = r.head(model, m);
  if (m.head.kind == HeadKind::kImageClass || m.head.kind == HeadKind::kImageClassTeacher)
    m.head.labels = r.labels();
  m.head.pooler = m.head.kind == HeadKind::kNone;
  m.initializer_range = r.number_or("initializer_range", 0.02, 0, 1e3);
  s.blocks.assign(static_cast<size_t>(layers), b);
  m.encoder = s;
  return m;
}

namespace {

Result<ModelSpec> read_vit(const Config& config) {
  Reader r(config);
  ModelSpec m = read_vit_like(r, "vit", "ViT", false);
  r.unsupported(m.head.kind == HeadKind::kImageClassTeacher, "architectures",
                "has a head that ViT does not have");
  return r.finish(m);
}

Result<ModelSpec> read_deit(const Config& config) {
  Reader r(config);
  ModelSpec m = read_vit_like(r, "deit", "DeiT", true);
  return r.finish(m);
}

std::vector<NameRule> vit_outer_names(const ModelSpec& spec) {
  const std::string file_prefix = spec.family + ".";
  const bool teacher = spec.head.kind == HeadKind::kImageClassTeacher;
  return {{"encoder.embed.cls", file_prefix + "embeddings.cls_token"},
          {"encoder.embed.distillation", file_prefix + "embeddings.distillation_token"},
          {"encoder.embed.positions", file_prefix + "embeddings.position_embeddings"},
          {"encoder.embed.patch", file_prefix + "embeddings.patch_embeddings.projection"},
          {"encoder.norm", file_prefix + "layernorm"},
          {"head.pooler", file_prefix + "pooler.dense"},
          {"head.classifier", teacher ? "cls_classifier" : "classifier"},
          {"head.distillation", "distillation_classifier"}};
}

std::vector<NameRule> vit_names(const ModelSpec& spec) {
  std::vector<NameRule> rules = vit_outer_names(spec);
  const std::string layer = "encoder.layers.{}.", file_layer = spec.family + ".encoder.layer.{}.";
  rules.insert(rules.end(), {{layer + "norm1", file_layer + "layernorm_before"},
                             {layer + "attn.q", file_layer + "attention.attention.query"},
                             {layer + "attn.k", file_layer + "attention.attention.key"},
                             {layer + "attn.v", file_layer + "attention.attention.value"},
                             {layer + "attn.o", file_layer + "attention.output.dense"},
                             {layer + "norm2", file_layer + "layernorm_after"},
                             {layer + "ffn.up", file_layer + "intermediate.dense"},
                             {layer + "ffn.down", file_layer + "output.dense"}});
  return rules;
}

std::vector<NameRule> vit_names_in_memory(const ModelSpec& spec) {
  std::vector<NameRule> rules = vit_outer_names(spec);
  const std::string layer = "encoder.layers.{}.", file_layer = spec.family + ".layers.{}.";
  rules.insert(rules.end(), {{layer + "norm1", file_layer + "layernorm_before"},
                             {layer + "attn.q", file_layer + "attention.q_proj"},
                             {layer + "attn.k", file_layer + "attention.k_proj"},
                             {layer + "attn.v", file_layer + "attention.v_proj"},
                             {layer + "attn.o", file_layer + "attention.o_proj"},
                             {layer + "norm2", file_layer + "layernorm_after"},
                             {layer + "ffn.up", file_layer + "mlp.fc1"},
                             {layer + "ffn.down", file_layer + "mlp.fc2"}});
  return rules;
}

}  // namespace

const Family kVit = {
    "vit", "vit.", read_vit, vit_names, vit_names_in_memory, {"pooler.dense.weight", "pooler.dense.bias"}};
const Family kDeit = {
    "deit", "deit.", read_deit, vit_names, vit_names_in_memory, {"pooler.dense.weight", "pooler.dense.bias"}};

}  // namespace makar
