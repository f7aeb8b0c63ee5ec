// VisionEncoderDecoder of transformers, for captions: a ViT encoder and a GPT-2 decoder with cross-attention.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_vision_encoder_decoder(const Config& config) {
  Reader r(config);
  const Config encoder_config = part_config(config, "encoder", "ViTModel"),
               decoder_config = part_config(config, "decoder", "GPT2LMHeadModel");
  Reader encoder(encoder_config), decoder(decoder_config);
  r.unsupported(encoder.text_or("model_type", "") != "vit", "encoder", "other than vit is not supported");
  r.unsupported(decoder.text_or("model_type", "") != "gpt2", "decoder", "other than gpt2 is not supported");
  ModelSpec m = read_gpt_like(decoder, "vision-encoder-decoder", "GPT2");
  ModelSpec vision = read_vit_like(encoder, "vit", "ViT", false);
  r.adopt(encoder);
  r.adopt(decoder);
  m.architecture = "VisionEncoderDecoderModel";
  m.encoder = vision.encoder;
  m.encoder->record_before_norm = true;
  m.shared_tokens = false;
  r.unsupported(decoder.has("cross_attention_hidden_size"), "cross_attention_hidden_size",
                "is not supported");
  for (BlockSpec& b : m.decoder->blocks) {
    b.cross = b.attention;
    b.cross->causal = false;
  }
  m.head = {};
  m.head.kind = HeadKind::kCausalLm;
  m.head.tied = decoder.flag_or("tie_word_embeddings", true);
  m.decoder_start = r.integer_or("decoder_start_token_id", m.bos, 0, m.vocab - 1);
  if (r.has("eos_token_id")) m.eos = {r.integer("eos_token_id", 0, m.vocab - 1)};
  m.pad = r.integer_or("pad_token_id", m.pad, -1, m.vocab - 1);
  return r.finish(m);
}

std::vector<NameRule> vision_encoder_decoder_names(const ModelSpec&) {
  const std::string encoder_layer = "encoder.layers.{}.", vit_layer = "encoder.encoder.layer.{}.",
                    decoder_layer = "decoder.layers.{}.", gpt_layer = "decoder.transformer.h.{}.";
  return {
      {"encoder.embed.cls", "encoder.embeddings.cls_token"},
      {"encoder.embed.positions", "encoder.embeddings.position_embeddings"},
      {"encoder.embed.patch", "encoder.embeddings.patch_embeddings.projection"},
      {encoder_layer + "norm1", vit_layer + "layernorm_before"},
      {encoder_layer + "attn.q", vit_layer + "attention.attention.query"},
      {encoder_layer + "attn.k", vit_layer + "attention.attention.key"},
      {encoder_layer + "attn.v", vit_layer + "attention.attention.value"},
      {encoder_layer + "attn.o", vit_layer + "attention.output.dense"},
      {encoder_layer + "norm2", vit_layer + "layernorm_after"},
      {encoder_layer + "ffn.up", vit_layer + "intermediate.dense"},
      {encoder_layer + "ffn.down", vit_layer + "output.dense"},
      {"encoder.norm", "encoder.layernorm"},
      {"decoder.embed.tokens", "decoder.transformer.wte"},
      {"decoder.embed.positions", "decoder.transformer.wpe"},
      {decoder_layer + "norm1", gpt_layer + "ln_1"},
      {{decoder_layer + "attn.q", decoder_layer + "attn.k", decoder_layer + "attn.v"},
       gpt_layer + "attn.c_attn",
       1,
       true},
      {decoder_layer + "attn.o", gpt_layer + "attn.c_proj", true},
      {decoder_layer + "norm_cross", gpt_layer + "ln_cross_attn"},
      {decoder_layer + "cross.q", gpt_layer + "crossattention.q_attn", true},
      {{decoder_layer + "cross.k", decoder_layer + "cross.v"}, gpt_layer + "crossattention.c_attn", 1, true},
      {decoder_layer + "cross.o", gpt_layer + "crossattention.c_proj", true},
      {decoder_layer + "norm2", gpt_layer + "ln_2"},
      {decoder_layer + "ffn.up", gpt_layer + "mlp.c_fc", true},
      {decoder_layer + "ffn.down", gpt_layer + "mlp.c_proj", true},
      {"decoder.norm", "decoder.transformer.ln_f"},
      {"head.bridge", "enc_to_dec_proj"},
      {"head.lm", "decoder.lm_head"}};
}

}  // namespace

const Family kVisionEncoderDecoder = {
    .type = "vision-encoder-decoder",
    .prefix = "",
    .read = read_vision_encoder_decoder,
    .names = vision_encoder_decoder_names,
    .ignored = {".attn.bias", ".attn.masked_bias", ".crossattention.bias", ".crossattention.masked_bias",
                "decoder.lm_head.weight", "encoder.pooler."}};

}  // namespace makar
