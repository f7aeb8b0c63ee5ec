// Classification, regression, tagging and extractive question answering: training heads on labelled texts,
// and replacing the head of a model.
#pragma once
#include <optional>

#include "train/debias.h"
#include "train/examples.h"
#include "train/labelled.h"

namespace makar {

// Loads the base model with a new head: "ForSequenceClassification", "ForTokenClassification" or
// "ForQuestionAnswering". Shared weights are kept; the head is initialised at random. `labels` become
// id2label.
Result<LoadedModel> with_head(const std::string& base, const std::string& head,
                              const std::vector<std::string>& labels, bool regression, uint64_t seed);
// The same for a model in memory; `config` is its config with any changes, `place` names it in errors.
// multi_label: labels are not exclusive.
Result<LoadedModel> with_head(const Model& old, Json config, const std::string& place,
                              const std::string& head, const std::vector<std::string>& labels,
                              bool regression, uint64_t seed, bool multi_label = false);
// Freezes the embeddings and the first `layers` layers; -1: the whole body. The weights of ELMo's layer mix
// stay trainable.
void freeze_body(Model& model, int64_t layers);

class ClassifyTask : public ExampleTask {
 public:
  ClassifyTask(Model& model, LabelledData data, int64_t batch, uint64_t seed, float smoothing);
  // Sets up weights and an adversary by group; call it before the first batch. Every text must have a group.
  Status debias(const DebiasOptions& options);
  // accuracy; for numbers pearson and mse; for answers exact_match and f1
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override;
  bool tokens_are_targets() const override { return false; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Result<std::vector<LabelledText>> read(std::span<const size_t> which, bool validation) const;
  Model& model_;
  Tensor class_loss(Context& ctx, const Tensor& logits, const std::vector<int64_t>& targets,
                    const std::vector<int64_t>& groups) const;
  LabelledData data_;
  float smoothing_;
  std::optional<GroupWeights> weights_;
  std::optional<GroupAdversary> adversary_;
};

// The head's outputs for a batch of texts, by name.
std::map<std::string, Tensor> head_outputs(const Model& model, Device& device, const Batch& batch);
Batch batch_of(const Model& model, std::span<const LabelledText> texts);

// SQuAD metrics: word overlap after lowercasing and removing articles and punctuation.
double answer_f1(const std::string& predicted, const std::string& truth);
std::string normalize_answer(const std::string& text);
// The most probable span of at most 30 tokens in the context of the windows, as text.
std::string best_answer(std::span<const LabelledText> windows, const std::vector<std::vector<float>>& starts,
                        const std::vector<std::vector<float>>& ends);

}  // namespace makar
