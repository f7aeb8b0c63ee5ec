// A model: stacks and heads built from a spec, parameters by name, one forward for everything.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "models/spec.h"
#include "nn/stack.h"

namespace makar {

// What goes in. Decoder-only and encoder-only models use `source`; encoder-decoders read `source` and write
// `target`.
struct Inputs {
  Batch source, target;
};

class Model {
 public:
  explicit Model(ModelSpec spec);
  Model(Model&&) = default;

  const ModelSpec& spec() const { return spec_; }
  ParameterSet& parameters() { return set_; }
  const ParameterSet& parameters() const { return set_; }
  Stack* encoder() const { return encoder_.get(); }
  Stack* decoder() const { return decoder_.get(); }

  // The last hidden states: of the decoder where there is one, else of the encoder. [N, width]
  Tensor hidden(ForwardContext& f, const Inputs& inputs, Record* encoder_record = nullptr) const;
  Tensor encode(ForwardContext& f, const Batch& source) const;
  Tensor decode(ForwardContext& f, const Batch& target, const Tensor& encoded, const Batch* source) const;
  // Encodes one sequence into the cache, where decode() then finds it without `encoded`.
  void read_source(ForwardContext& f, const Batch& source, size_t slot) const;

  // Language-model head: rows ready for the output matrix, and the logits themselves.
  Tensor lm_rows(Context& ctx, const Tensor& hidden) const;
  Tensor lm_logits(Context& ctx, const Tensor& hidden) const;
  // Mean cross-entropy over the targets that count, without holding all logits.
  Tensor lm_loss(Context& ctx, const Tensor& hidden, std::span<const int64_t> targets,
                 float smoothing = 0.0f) const;

  // Dense + tanh on the first row of each sequence. [sequences, width]
  Tensor pooled(Context& ctx, const Tensor& hidden, const Batch& batch) const;
  Tensor next_sentence_logits(Context& ctx, const Tensor& hidden, const Batch& batch) const;
  // Every output the head makes, by the names transformers gives them ("logits", "start_logits", ...): a row
  // a token, or a row a sequence.
  std::map<std::string, Tensor> outputs(Context& ctx, const Tensor& hidden, const Batch& batch) const;

  // Calls visit(name, linear) for every Linear, names as in parameters() without ".weight".
  void each_linear(const std::function<void(const std::string&, Linear&)>& visit);
  // Lays all weights out for the kernels, the largest first; the model is frozen from here on. With
  // `release`, weights that were copied out of their file are held once, packed: they have no values then.
  void pack(ThreadPool& pool, bool release = false);

 private:
  void make_heads();
  ModelSpec spec_;
  ParameterSet set_;
  std::unique_ptr<Stack> encoder_, decoder_;
  Linear lm_, transform_, pooler_, classifier_, classifier_dense_, second_;
  Norm transform_norm_;
};

}  // namespace makar
