// A model: stacks and heads built from a spec, parameters by name, one forward pass for all uses.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "models/spec.h"
#include "nn/stack.h"

namespace makar {

// The inputs of a forward pass. Decoder-only and encoder-only models use `source`; encoder-decoders encode
// `source` and decode `target`.
struct Inputs {
  Batch source, target;
};

// The batch of images [n, channels, height, width], one sequence each.
Batch pixel_batch(const ModelSpec& spec, const Tensor& pixels);

class Model {
 public:
  // `tokens`: a token embedding that another model owns, or null.
  explicit Model(ModelSpec spec, Parameter* tokens = nullptr);
  Model(Model&&) = default;

  const ModelSpec& spec() const { return spec_; }
  ParameterSet& parameters() { return set_; }
  const ParameterSet& parameters() const { return set_; }
  Stack* encoder() const { return encoder_.get(); }
  Stack* decoder() const { return decoder_.get(); }

  // The last hidden states: of the decoder if there is one, else of the encoder. [N, width]. For a
  // bidirectional language model, the states of the last layer; encode() returns its mix of all layers.
  Tensor hidden(ForwardContext& f, const Inputs& inputs, Record* encoder_record = nullptr) const;
  Tensor encode(ForwardContext& f, const Batch& source) const;
  Tensor decode(ForwardContext& f, const Batch& target, const Tensor& encoded, const Batch* source) const;
  // Encodes one sequence into the cache; decode() then reads it there and needs no `encoded`.
  void read_source(ForwardContext& f, const Batch& source, size_t slot) const;

  // Language-model head: the rows before the output matrix, and the logits. A bidirectional model has two
  // rows per token: for the next token and for the previous one.
  Tensor lm_rows(Context& ctx, const Tensor& hidden) const;
  // The dense layer, activation and norm of a head that has them (HeadSpec::transform).
  Tensor transformed(Context& ctx, const Tensor& x) const;
  Tensor lm_logits(Context& ctx, const Tensor& hidden) const;
  // Mean cross-entropy over the targets that are not ignored, without storing all logits.
  Tensor lm_loss(Context& ctx, const Tensor& hidden, std::span<const int64_t> targets,
                 float smoothing = 0.0f) const;

  // The vector with which XLNet replaces tokens to predict, `count` times. [count, width]
  Tensor mask_rows(Context& ctx, int64_t count) const;

  // Dense + tanh on the first row of each sequence. [sequences, width]
  Tensor pooled(Context& ctx, const Tensor& hidden, const Batch& batch) const;
  Tensor next_sentence_logits(Context& ctx, const Tensor& hidden, const Batch& batch) const;
  // The classifier of a model that classifies by its last token, on every row: a reward model's head as a
  // value head. [N, labels]
  Tensor row_scores(Context& ctx, const Tensor& hidden) const;
  // All outputs of the head, by their names in transformers ("logits", "start_logits", ...): one row per
  // token or one row per sequence.
  std::map<std::string, Tensor> outputs(Context& ctx, const Tensor& hidden, const Batch& batch) const;

  // ImageInputSpec: the encoder's rows of all images, as token embeddings of the decoder.
  Tensor image_rows(ForwardContext& f, const Batch& images) const;

  // kContrastive: vectors of norm 1.
  Tensor text_vectors(Context& ctx, const Tensor& hidden, const Batch& texts) const;
  Tensor image_vectors(ForwardContext& f, const Batch& images) const;
  // The scores of texts for images, before a softmax: [images, texts].
  Tensor contrast(Context& ctx, const Tensor& images, const Tensor& texts) const;

  // Calls visit(name, linear) for every Linear; names as in parameters() without ".weight".
  void each_linear(const std::function<void(const std::string&, Linear&)>& visit);
  // Every Linear, in groups that are packed together: a layer of all experts, or a single one.
  std::vector<std::vector<Linear*>> packed_groups();
  // Weights of the layers that compute the model's outputs: vocabulary (the token table when tied), labels.
  std::vector<const Parameter*> output_weights() const;
  // Packs all weights for the kernels, the largest first; the model is read-only afterwards. With `release`,
  // weights that were copied from their file are kept only in packed form: their parameters have no values
  // then. With activations in bf16, matrices of floats are rounded to bf16, and inference computes in bf16.
  void pack(Device& device, bool release = false, DType activations = DType::kF32);
  // The type of activations in inference (Context::activations): f32, or the type passed to pack().
  DType activations() const { return activations_; }
  void set_activations(DType type) { activations_ = type; }

 private:
  void make_heads();
  ModelSpec spec_;
  DType activations_ = DType::kF32;
  ParameterSet set_;
  std::unique_ptr<Stack> encoder_, decoder_;
  Linear project1_, project2_;                 // ImageInputSpec
  Linear bridge_;                              // from the encoder's width to the decoder's
  Linear text_projection_, image_projection_;  // kContrastive
  Parameter *logit_scale_ = nullptr, *mask_ = nullptr;
  Linear lm_, transform_, pooler_, classifier_, classifier_dense_;
  Linear second_;  // kPretraining: next sentence; kImageClassTeacher: distillation
  Norm transform_norm_;
};

}  // namespace makar
