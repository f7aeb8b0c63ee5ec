// The models of makar distill: the teacher, and a student that is given, new, or made of the teacher's
// layers.
#pragma once
#include <optional>

#include "cli/fine_tune.h"
#include "train/sampled_answers.h"

namespace makar {

struct Distill : FineTuneOptions {  // base_model: the student; "" if it is new
  std::string teacher, student_config, layer_map, system;
  std::string loss_type = "forward", hidden_loss = "mse", attention_loss = "mse", answers = "data";
  int64_t student_layers = 0;
  double temperature = 1, alpha = 0.5, beta = 0.5, hidden_weight = 0, attention_weight = 0, student_share = 1;
  SampledAnswersOptions sampled;
};

class DistillModels {
 public:
  Model& student() const { return *loaded().model; }
  const LoadedModel& loaded() const { return given_ ? given_loaded() : *made_; }
  Model& teacher_model() const { return *const_cast<LanguageModel&>(*teacher_).loaded().model; }
  // Whose tokenizer and chat template are used: the student's, or the teacher's if the student is new.
  const LanguageModel& text() const { return given_ && given_->has_tokenizer() ? *given_ : *teacher_; }
  const std::string& text_folder(const Distill& s) const {
    return given_ && given_->has_tokenizer() ? s.base_model : s.teacher;
  }

 private:
  friend Result<std::unique_ptr<DistillModels>> open_distill_models(const Distill& s, Device& device);
  const LoadedModel& given_loaded() const { return const_cast<LanguageModel&>(*given_).loaded(); }
  std::optional<LanguageModel> teacher_, given_;
  std::optional<LoadedModel> made_;
};
Result<std::unique_ptr<DistillModels>> open_distill_models(const Distill& s, Device& device);

}  // namespace makar
