// Losses of distillation: distances between the predictions, hidden states and attention of a student and of
// its teacher. No gradient flows into the teacher.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"

namespace makar {

// With p the teacher's distribution and q the student's:
//   forward  KL(p || q) (Hinton et al., 2015): mode-covering
//   reverse  KL(q || p) (Gu et al., 2023): mode-seeking
//   jensen_shannon  b KL(p || m) + (1 - b) KL(q || m), m = b p + (1 - b) q (Agarwal et al., 2023)
enum class TeacherLoss { kForward, kReverse, kJensenShannon };
std::optional<TeacherLoss> teacher_loss_named(const std::string& name);
std::vector<std::string> teacher_loss_names();

// Mean over rows; both [rows, classes] are log-probabilities. `beta`: b of kJensenShannon, above 0, below 1.
Tensor teacher_divergence(Context& ctx, const Tensor& student, const Tensor& teacher, TeacherLoss loss,
                          float beta);

// The divergence of the two models' next-token distributions at a temperature T, times T^2, which keeps the
// size of its gradient. The arguments are rows of hidden states of each model; logits are computed for a few
// rows at a time, and again in the backward pass, to save memory.
struct PredictionLoss {
  const Model& student;
  const Model& teacher;
  TeacherLoss loss = TeacherLoss::kForward;
  float temperature = 1, beta = 0.5f;
  static constexpr int64_t kMaxLogits = int64_t{4} << 20;
  int64_t max_logits = kMaxLogits;  // maximum number of logits in memory; at least one row
  Tensor operator()(Context& ctx, const Tensor& student_rows, const Tensor& teacher_rows) const;
};

// Mean squared difference (TinyBERT; Jiao et al., 2019).
Tensor hidden_distance(Context& ctx, const Tensor& student, const Tensor& teacher);
// Mean over rows of 1 - cosine (DistilBERT; Sanh et al., 2019).
Tensor hidden_angle(Context& ctx, const Tensor& student, const Tensor& teacher);

// The queries and keys of a layer, [N, heads * head_dim] and [N, kv heads * head_dim].
struct AttentionRows {
  Tensor queries, keys;
  const AttentionSpec& spec;
};
// Mean over heads and visible positions of the squared difference of attention scores before the softmax
// (TinyBERT), or with `divergence` mean over heads and rows of KL(teacher || student) of the attention
// weights (MiniLM; Wang et al., 2020). Both have the same number of heads and see the same positions.
Tensor attention_distance(Context& ctx, const AttentionRows& student, const AttentionRows& teacher,
                          const std::vector<Sequence>& sequences, bool divergence);

}  // namespace makar
