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
  const std::string encoder = "encoder.layers.{}.", vit = "encoder.encoder.layer.{}.",
                    ours = "decoder.layers.{}.", gpt = "decoder.transformer.h.{}.";
  return {{"encoder.embed.cls", "encoder.embeddings.cls_token"},
          {"encoder.embed.positions", "encoder.embeddings.position_embeddings"},
          {"encoder.embed.patch", "encoder.embeddings.patch_embeddings.projection"},
          {encoder + "norm1", vit + "layernorm_before"},
          {encoder + "attn.q", vit + "attention.attention.query"},
          {encoder + "attn.k", vit + "attention.attention.key"},
          {encoder + "attn.v", vit + "attention.attention.value"},
          {encoder + "attn.o", vit + "attention.output.dense"},
          {encoder + "norm2", vit + "layernorm_after"},
          {encoder + "ffn.up", vit + "intermediate.dense"},
          {encoder + "ffn.down", vit + "output.dense"},
          {"encoder.norm", "encoder.layernorm"},
          {"decoder.embed.tokens", "decoder.transformer.wte"},
          {"decoder.embed.positions", "decoder.transformer.wpe"},
          {ours + "norm1", gpt + "ln_1"},
          {{ours + "attn.q", ours + "attn.k", ours + "attn.v"}, gpt + "attn.c_attn", 1, true},
          {ours + "attn.o", gpt + "attn.c_proj", true},
          {ours + "norm_cross", gpt + "ln_cross_attn"},
          {ours + "cross.q", gpt + "crossattention.q_attn", true},
          {{ours + "cross.k", ours + "cross.v"}, gpt + "crossattention.c_attn", 1, true},
          {ours + "cross.o", gpt + "crossattention.c_proj", true},
          {ours + "norm2", gpt + "ln_2"},
          {ours + "ffn.up", gpt + "mlp.c_fc", true},
          {ours + "ffn.down", gpt + "mlp.c_proj", true},
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
