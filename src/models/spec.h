// The specification of a whole model: its stacks, its head, its special tokens.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "nn/spec.h"

namespace makar {

enum class HeadKind {
  kNone,      // hidden states (and a pooler where the family has one)
  kCausalLm,  // next token; also for the decoder of an encoder-decoder
  kMaskedLm,
  kBidirectionalLm,  // next token from the first half of a row, previous token from the second (ELMo)
  kPretraining,      // masked LM and next-sentence prediction (BERT)
  kSequenceClass,    // one label (or score) per sequence
  kTokenClass,
  kReplacedToken,  // one logit per token: was it replaced? (ELECTRA)
  kQuestion,       // start and end logits
  kImageClass,
  kImageClassTeacher,  // class and distillation heads, averaged (DeiT)
  kContrastive,        // one vector per image and per text, compared (CLIP)
};

// How a classifier gets one vector from a sequence.
enum class PoolKind { kFirst, kPooler, kLast, kMean };

struct HeadSpec {
  HeadKind kind = HeadKind::kNone;
  int64_t labels = 0;
  // Language modelling
  bool tied = true;  // the output matrix is the token embedding
  bool lm_bias = false;
  bool lm_offset = false;  // a fixed bias, saved but not trained (BART, Marian)
  bool transform = false;  // dense, activation and norm before the output matrix or the classifier
  bool transform_bias = true;
  int64_t transform_width = 0;
  Activation transform_activation = Activation::kGelu;
  float scale = 1.0f;     // factor on the hidden states
  float soft_cap = 0.0f;  // on the logits
  // Classification
  PoolKind pool = PoolKind::kFirst;
  bool pooler = false;  // dense + tanh on the first token
  bool classifier_dense = false;
  Activation classifier_activation = Activation::kTanh;
  bool classifier_bias = true;
  int64_t projection = 0;  // kContrastive: the width of a vector
};

// A decoder that reads images: projected rows of the encoder replace the image tokens (LLaVA).
struct ImageInputSpec {
  int64_t token = -1;
  int64_t layer = -1;      // of the encoder, counted from the end; its output is projected
  bool skip_class = true;  // without the class token
  bool bias = true;
  Activation activation = Activation::kGelu;
};

struct ModelSpec {
  std::string family;        // "llama"
  std::string architecture;  // "LlamaForCausalLM"
  std::optional<StackSpec> encoder, decoder;
  bool shared_tokens = true;  // encoder and decoder share one token embedding
  HeadSpec head;
  std::optional<ImageInputSpec> image_input;
  int64_t vocab = 0;
  int64_t max_positions = 0;  // 0: no limit
  int64_t bos = -1, pad = -1, decoder_start = -1;
  std::vector<int64_t> eos;
  float router_loss = 0.0f;  // weight of the load-balancing loss
  float initializer_range = 0.02f;
  Json config;  // config.json as read

  const StackSpec& main() const { return decoder ? *decoder : *encoder; }
  // An encoder-decoder: the decoder attends to the rows of the encoder.
  bool is_encoder_decoder() const {
    return encoder && decoder && !image_input && head.kind != HeadKind::kContrastive;
  }
  // A decoder that continues a text alone: without an encoder, or with one for images, which are optional.
  bool continues_text() const {
    return decoder && head.kind == HeadKind::kCausalLm && (!encoder || image_input);
  }
  bool reads_images() const { return encoder && encoder->embedding.patches.has_value(); }
  // Rows of the encoder per image.
  int64_t image_rows() const {
    const PatchSpec& p = *encoder->embedding.patches;
    return (p.image_height / p.patch) * (p.image_width / p.patch) + (p.distillation_token ? 2 : 1);
  }
  // Image tokens in the prompt per image, for a decoder that reads images.
  int64_t image_tokens() const { return image_rows() - (image_input->skip_class ? 1 : 0); }
};

}  // namespace makar
