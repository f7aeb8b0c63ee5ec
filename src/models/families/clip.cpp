// CLIP (Radford et al., 2021): a tower for images and one for texts, compared by their projected vectors.
#include "models/families/pages.h"

namespace makar {

Config part_config(const Config& config, const char* key, const char* architecture) {
  const auto it = config.json().find(key);
  Json part = it != config.json().end() && it->is_object() ? *it : Json::object();
  part["architectures"] = {architecture};
  return Config(std::move(part), config.place() + ": " + key);
}

namespace {

void clip_blocks(Reader& r, StackSpec& s) {
  s.width = r.width_or("hidden_size", 512);
  s.norm.eps = r.number_or("layer_norm_eps", 1e-5, 0, 1);
  BlockSpec b;
  r.full_heads(b.attention, s.width, "num_attention_heads");
  b.attention.qkv_bias = b.attention.out_bias = b.feed_forward.bias = true;
  b.attention.dropout = r.dropout_or("attention_dropout", 0.0);
  b.feed_forward.width = r.integer("intermediate_size", 1, int64_t{1} << 20);
  if (r.text_or("hidden_act", "quick_gelu") == "quick_gelu")
    b.feed_forward.activation = Activation::kSilu, b.feed_forward.sharpness = 1.702f;
  else
    b.feed_forward.activation = r.activation("hidden_act", "gelu");
  s.blocks.assign(static_cast<size_t>(r.layers("num_hidden_layers")), b);
}

std::vector<NameRule> clip_layer_names(const std::string& layer, const std::string& file_layer) {
  return {{layer + "norm1", file_layer + "layer_norm1"},
          {layer + "attn.q", file_layer + "self_attn.q_proj"},
          {layer + "attn.k", file_layer + "self_attn.k_proj"},
          {layer + "attn.v", file_layer + "self_attn.v_proj"},
          {layer + "attn.o", file_layer + "self_attn.out_proj"},
          {layer + "norm2", file_layer + "layer_norm2"},
          {layer + "ffn.up", file_layer + "mlp.fc1"},
          {layer + "ffn.down", file_layer + "mlp.fc2"}};
}

}  // namespace

StackSpec clip_vision(Reader& r) {
  StackSpec s;
  s.name = "encoder";
  clip_blocks(r, s);
  for (BlockSpec& b : s.blocks) b.attention.causal = false;
  PatchSpec p;
  p.image_height = p.image_width = r.integer_or("image_size", 224, 1, 16384);
  p.patch = r.integer_or("patch_size", 32, 1, 16384);
  p.channels = r.integer_or("num_channels", 3, 1, 1024);
  p.bias = false;
  r.require(p.patch <= p.image_height, "patch_size", "is larger than the image");
  s.embedding.patches = p;
  s.embedding.width = s.width;
  s.embedding.norm = true;
  s.record_before_norm = true;
  return s;
}

std::vector<NameRule> clip_vision_names(const std::string& file_prefix) {
  std::vector<NameRule> rules = clip_layer_names("encoder.layers.{}.", file_prefix + "encoder.layers.{}.");
  rules.insert(rules.end(),
               {{"encoder.embed.cls", file_prefix + "embeddings.class_embedding"},
                {"encoder.embed.positions", file_prefix + "embeddings.position_embedding.weight"},
                {"encoder.embed.patch", file_prefix + "embeddings.patch_embedding"},
                {"encoder.embed.norm", file_prefix + "pre_layrnorm"},
                {"encoder.norm", file_prefix + "post_layernorm"}});
  return rules;
}

namespace {

Result<ModelSpec> read_clip(const Config& config) {
  Reader r(config);
  const Config texts = part_config(config, "text_config", ""),
               images = part_config(config, "vision_config", "");
  Reader text(texts), vision(images);
  ModelSpec m;
  m.family = "clip";
  m.architecture = "CLIPModel";
  m.encoder = clip_vision(vision);
  StackSpec s;
  s.name = "decoder";
  clip_blocks(text, s);
  m.vocab = s.embedding.vocab = text.vocab("vocab_size");
  s.embedding.width = s.width;
  s.embedding.positions = PositionKind::kLearned;
  m.max_positions = s.embedding.max_positions = text.positions_or("max_position_embeddings", 77);
  m.decoder = s;
  m.shared_tokens = false;
  m.head.kind = HeadKind::kContrastive;
  m.head.projection = r.width_or("projection_dim", 512);
  text.special_tokens(m, 49406, 49407, 1);
  r.adopt(text);
  r.adopt(vision);
  return r.finish(m);
}

std::vector<NameRule> clip_names(const ModelSpec&) {
  std::vector<NameRule> rules = clip_vision_names("vision_model.");
  const auto layers = clip_layer_names("decoder.layers.{}.", "text_model.encoder.layers.{}.");
  rules.insert(rules.end(), layers.begin(), layers.end());
  rules.insert(rules.end(), {{"decoder.embed.tokens", "text_model.embeddings.token_embedding"},
                             {"decoder.embed.positions", "text_model.embeddings.position_embedding"},
                             {"decoder.norm", "text_model.final_layer_norm"},
                             {"head.text", "text_projection"},
                             {"head.image", "visual_projection"},
                             {"head.scale", "logit_scale"}});
  return rules;
}

}  // namespace

const Family kClip = {.type = "clip",
                      .prefix = "",
                      .read = read_clip,
                      .names = clip_names,
                      .ignored = {"embeddings.position_ids"}};
}  // namespace makar
