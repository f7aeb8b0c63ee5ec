// Classifiers that treat groups of people alike: examples weighted so that groups and labels are independent
// (Kamiran and Calders, 2012), and an adversary that predicts the group from the classifier's output, whose
// gradient is reversed (Zhang et al., 2018; Ganin et al., 2016).
#pragma once
#include "models/model.h"
#include "train/labelled.h"

namespace makar {

struct DebiasOptions {
  bool reweigh = false;
  float adversary = 0;      // strength of the reversed gradient; 0: no adversary
  bool sees_label = false;  // the adversary also sees the true label: equalized odds, not demographic parity
  bool any() const { return reweigh || adversary > 0; }
};

// weight(group, label) = n(group) * n(label) / (n * n(group, label)), where n counts examples. The weighted
// counts of groups and labels are then independent; the weights of all examples sum to n. Every example must
// have a group.
class GroupWeights {
 public:
  static Result<GroupWeights> of(const LabelledTexts& texts, size_t groups, size_t labels);
  float operator()(int64_t group, int64_t label) const {
    return weights_[static_cast<size_t>(group) * labels_ + static_cast<size_t>(label)];
  }

 private:
  size_t labels_ = 0;
  std::vector<float> weights_;
};

// Mean over the rows of weight * cross-entropy; one target and one weight per row.
Tensor weighted_cross_entropy(Context& ctx, const Tensor& logits, const std::vector<int64_t>& targets,
                              const std::vector<float>& weights);

// Two layers whose parameters are trained with `model` but are not part of it.
class GroupAdversary {
 public:
  GroupAdversary(Model& model, int64_t labels, int64_t groups, const DebiasOptions& options, uint64_t seed);
  // The cross-entropy of the predicted groups. The adversary is trained with the gradient of this loss, the
  // classifier with that gradient times -DebiasOptions::adversary. logits [texts, labels].
  Tensor loss(Context& ctx, const Tensor& logits, const std::vector<int64_t>& labels,
              const std::vector<int64_t>& groups) const;

 private:
  DebiasOptions o_;
  int64_t labels_;
  Parameter *hidden_, *hidden_bias_, *output_;
};

}  // namespace makar
