// Losses by head of the model: one function per kind of label, all on the same hidden states.
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

// The head's loss for labels in transformers' format: [batch, time] with -100 for ignored positions (causal
// models predict the next label), or [batch] for one label per sequence. Adds the router's load-balancing
// loss if the config enables it. Labels are external input: wrong shapes and ranges are returned as errors.
Result<Tensor> head_loss(ForwardContext& f, const Model& model, const Inputs& inputs, const Labels& labels,
                         const ObjectiveOptions& options = {});

// Mean cross-entropy of a language model over the targets that are not ignored; one target per row. In
// training (with a tape) applies label smoothing and adds the router's load-balancing loss if the config
// enables it.
Tensor language_loss(ForwardContext& f, const Model& model, const Inputs& inputs,
                     std::span<const int64_t> targets, float smoothing);

// Binary cross-entropy of one logit per row; targets are 1 (replaced), 0 or ops::kIgnore.
Tensor replaced_loss(Context& ctx, const Tensor& logits, const std::vector<int64_t>& targets);
// `loss` plus the load-balancing loss of the routers recorded in a forward pass (models with experts).
Tensor with_balance(Context& ctx, const ModelSpec& spec, const Record& record, const Tensor& loss);

// Mean over pairs of -log sigmoid(chosen - rejected) (Ouyang et al., 2022): scores [pairs] each.
Tensor pairwise_loss(Context& ctx, const Tensor& chosen, const Tensor& rejected);

// Log-probabilities of the tokens with mask 1, in the order of the batch: values [scored tokens];
// sequence s has values [starts[s], starts[s + 1]). mask has one value per token of the batch; a token is
// scored from the row before it.
struct ScoredTokens {
  Tensor values;
  std::vector<int64_t> starts;
};
ScoredTokens token_log_probabilities(ForwardContext& f, const Model& model, const Batch& batch,
                                     const std::vector<float>& mask);
// Sums of scored tokens per sequence: [sequences].
Tensor sequence_sums(Context& ctx, const ScoredTokens& scored);
// Both steps: the summed log-probability of each sequence.
Tensor sequence_log_probabilities(ForwardContext& f, const Model& model, const Batch& batch,
                                  const std::vector<float>& mask);

}  // namespace makar
