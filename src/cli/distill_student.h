// The models of makar distill: the teacher, and a student that is an existing model, a new one, or some of
// the teacher's layers.
#pragma once
#include <optional>

#include "cli/fine_tune.h"
#include "train/sampled_answers.h"

namespace makar {

struct Distill : FineTuneOptions {  // base_model: the student; "" if it is new
  std::string teacher, student_config, layer_map, system;
  std::string loss_type = "forward", hidden_loss = "mse", attention_loss = "mse", answers = "data";
  std::string student_layers;  // "4", or the numbers of the teacher's layers "1,3,4,8"
  double temperature = 1, alpha = 0.5, beta = 0.5, hidden_weight = 0, attention_weight = 0, student_share = 1;
  bool sample_packing = false;
  SampledAnswersOptions sampled;
};

// The teacher's layers that form the student, from 0: `student_layers` of them, evenly spread, or the listed
// ones.
Result<std::vector<int64_t>> chosen_layers(const std::string& student_layers, int64_t teacher_layers);

class DistillModels {
 public:
  Model& student() const { return *loaded().model; }
  const LoadedModel& loaded() const { return base_student_ ? base_loaded() : *new_student_; }
  Model& teacher_model() const { return *const_cast<LanguageModel&>(*teacher_).loaded().model; }
  // The model whose tokenizer and chat template are used: the student, or the teacher if the student has
  // none.
  const LanguageModel& text() const {
    return base_student_ && base_student_->has_tokenizer() ? *base_student_ : *teacher_;
  }
  const std::string& text_folder(const Distill& s) const {
    return base_student_ && base_student_->has_tokenizer() ? s.base_model : s.teacher;
  }

 private:
  friend Result<std::unique_ptr<DistillModels>> open_distill_models(const Distill& s, Device& device);
  const LoadedModel& base_loaded() const { return const_cast<LanguageModel&>(*base_student_).loaded(); }
  std::optional<LanguageModel> teacher_, base_student_;
  std::optional<LoadedModel> new_student_;
};
Result<std::unique_ptr<DistillModels>> open_distill_models(const Distill& s, Device& device);

}  // namespace makar
