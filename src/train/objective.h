// Losses by what the model's head predicts: one function a kind of labels, all on the same hidden states.
#pragma once
#include <map>
#include <string>

#include "models/forward.h"

namespace makar {

// Labels under transformers' names: labels, next_sentence_label, start_positions, end_positions.
using Labels = std::map<std::string, Tensor>;

struct ObjectiveOptions {
  float smoothing = 0.0f;
};

// The loss of the head for labels given as in transformers: [batch, time] with -100 for "not counted" (causal
// models predict the next label), [batch] for one label a sequence. Includes the router's balance where the
// config asks. Shapes and ranges of labels come from outside: errors are values.
Result<Tensor> head_loss(ForwardContext& f, const Model& model, const Inputs& inputs, const Labels& labels,
                         const ObjectiveOptions& options = {});

// Mean cross-entropy of a language model over the targets that count, one a row. In training (with a tape) it
// is smoothed, and the balance of the router is added where the config asks.
Tensor language_loss(ForwardContext& f, const Model& model, const Inputs& inputs,
                     std::span<const int64_t> targets, float smoothing);

// Mean over pairs of -log sigmoid(chosen - rejected) (Ouyang et al., 2022): scores [pairs] each.
Tensor pairwise_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected);

// Summed log-probability of the tokens that mask marks, one value a sequence: [sequences]. mask is one value
// a token of the batch; a token is scored from the row before it.
Tensor sequence_log_probabilities(ForwardContext& f, const Model& model, const Batch& batch,
                                  const std::vector<float>& mask);

}  // namespace makar
