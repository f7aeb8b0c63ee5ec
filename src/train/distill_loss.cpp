#include "train/distill_loss.h"

#include <algorithm>
#include <cmath>

#include "ops/checkpoint.h"
#include "ops/norm.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

constexpr std::pair<const char*, TeacherLoss> kTeacherLosses[] = {
    {"forward", TeacherLoss::kForward},
    {"reverse", TeacherLoss::kReverse},
    {"jensen_shannon", TeacherLoss::kJensenShannon}};

Tensor constant(Context& ctx, const Shape& shape, const std::vector<float>& values) {
  return Tensor::from(shape, std::span<const float>(values)).to(ctx.device.memory());
}

// 1 where the row of a sequence attends to the column, else 0: [length, length].
std::vector<float> visibility_mask(const AttentionSpec& spec, int64_t length) {
  std::vector<float> out(static_cast<size_t>(length * length), 0.0f);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < length; ++j) {
      const bool near = spec.window == 0 || std::abs(i - j) < spec.window;
      if (near && (!spec.causal || j <= i)) out[static_cast<size_t>(i * length + j)] = 1.0f;
    }
  return out;
}

// Scores before the softmax of one head on the rows of one sequence: [length, length].
class Scores {
 public:
  Scores(Context& ctx, const AttentionRows& rows, const std::vector<int64_t>& lengths)
      : ctx_(ctx), spec_(rows.spec) {
    const auto cut = [&](const Tensor& x, int64_t heads) {
      std::vector<std::vector<Tensor>> out;
      const std::vector<int64_t> sizes(static_cast<size_t>(heads), spec_.head_dim);
      for (const Tensor& head : ops::split(ctx, x, sizes, -1))
        out.push_back(ops::split(ctx, head, lengths, 0));
      return out;
    };
    queries_ = cut(rows.queries, spec_.heads), keys_ = cut(rows.keys, spec_.kv_heads);
  }
  Tensor operator()(int64_t head, size_t sequence) const {
    const auto h = static_cast<size_t>(head);
    const auto kv = static_cast<size_t>(head / (spec_.heads / spec_.kv_heads));
    Tensor s = ops::matmul(ctx_, queries_[h][sequence], keys_[kv][sequence], true);
    s = ops::scale(ctx_, s, spec_.scale);
    return spec_.soft_cap > 0 ? ops::soft_cap(ctx_, s, spec_.soft_cap) : s;
  }

 private:
  Context& ctx_;
  const AttentionSpec& spec_;
  std::vector<std::vector<Tensor>> queries_, keys_;  // [head][sequence]
};

}  // namespace

std::optional<TeacherLoss> teacher_loss_named(const std::string& name) {
  for (const auto& [known, loss] : kTeacherLosses)
    if (name == known) return loss;
  return std::nullopt;
}

std::vector<std::string> teacher_loss_names() {
  std::vector<std::string> out;
  for (const auto& row : kTeacherLosses) out.emplace_back(row.first);
  return out;
}

Tensor teacher_divergence(Context& ctx, const Tensor& student, const Tensor& teacher, TeacherLoss loss,
                          float beta) {
  if (loss == TeacherLoss::kForward) return ops::kl_divergence(ctx, student, teacher);
  const float rows = static_cast<float>(student.count()) / static_cast<float>(student.dim(-1));
  // Sum over classes of exp(weights) (weights - other), mean over rows.
  const auto divergence = [&](const Tensor& weights, const Tensor& other) {
    const Tensor p = ops::activate(ctx, weights, Activation::kExp);
    return ops::scale(ctx, ops::sum(ctx, ops::multiply(ctx, p, ops::subtract(ctx, weights, other))),
                      1.0f / rows);
  };
  if (loss == TeacherLoss::kReverse) return divergence(student, teacher);
  // log m = log(b p) + softplus(log((1 - b) q) - log(b p))
  const Tensor log_teacher = ops::shift(ctx, teacher, std::log(beta));
  const Tensor log_student = ops::shift(ctx, student, std::log(1.0f - beta));
  const Tensor mixture =
      ops::add(ctx, ops::activate(ctx, ops::subtract(ctx, log_student, log_teacher), Activation::kSoftplus),
               log_teacher);
  return ops::add(ctx, ops::scale(ctx, divergence(teacher, mixture), beta),
                  ops::scale(ctx, divergence(student, mixture), 1.0f - beta));
}

Tensor PredictionLoss::operator()(Context& ctx, const Tensor& student_rows,
                                  const Tensor& teacher_rows) const {
  const int64_t n = student_rows.dim(0), step = std::max<int64_t>(1, max_logits / student.spec().vocab);
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < n; at += step) sizes.push_back(std::min(step, n - at));
  const std::vector<Tensor> parts =
      sizes.size() > 1 ? ops::split(ctx, student_rows, sizes, 0) : std::vector<Tensor>{student_rows};
  Tensor total;
  for (size_t i = 0, at = 0; i < parts.size(); at += static_cast<size_t>(sizes[i]), ++i) {
    const auto from = static_cast<int64_t>(at);
    const auto body = [self = *this, rows = teacher_rows.slice(from, from + sizes[i])](
                          Context& c, const std::vector<Tensor>& in) {
      const float inverse_temperature = 1.0f / self.temperature;
      Context plain{c.device};
      const Tensor p = ops::log_softmax(
          plain, ops::scale(plain, self.teacher.lm_logits(plain, rows), inverse_temperature));
      const Tensor q =
          ops::log_softmax(c, ops::scale(c, self.student.lm_logits(c, in[0]), inverse_temperature));
      return teacher_divergence(c, q, p, self.loss, self.beta);
    };
    const Tensor mean =
        parts.size() > 1 ? ops::checkpoint(ctx, {parts[i]}, body) : body(ctx, std::vector<Tensor>{parts[i]});
    const Tensor share = ops::scale(
        ctx, mean, temperature * temperature * static_cast<float>(sizes[i]) / static_cast<float>(n));
    total = total.defined() ? ops::add(ctx, total, share) : share;
  }
  return total;
}

Tensor hidden_distance(Context& ctx, const Tensor& student, const Tensor& teacher) {
  return ops::mse_loss(ctx, student, teacher);
}

Tensor hidden_angle(Context& ctx, const Tensor& student, const Tensor& teacher) {
  const int64_t width = student.dim(-1), rows = student.dim(0);
  const Tensor ones = Tensor::full({width}, 1.0f).to(ctx.device.memory());
  // Rows of length sqrt(width), not 1.
  const auto unit = [&](const Tensor& x) { return ops::rms_norm(ctx, x, ones, 1e-12f); };
  const Tensor products = ops::sum(ctx, ops::multiply(ctx, unit(student), unit(teacher)));
  return ops::shift(ctx, ops::scale(ctx, products, -1.0f / static_cast<float>(width * rows)), 1.0f);
}

Tensor attention_distance(Context& ctx, const AttentionRows& student, const AttentionRows& teacher,
                          const std::vector<Sequence>& sequences, bool divergence) {
  check(student.spec.heads == teacher.spec.heads, "attention is compared head by head");
  std::vector<int64_t> lengths;
  for (const Sequence& s : sequences) lengths.push_back(s.length);
  Context plain{ctx.device};  // without a tape
  const Scores student_scores(ctx, student, lengths), teacher_scores(plain, teacher, lengths);
  const int64_t heads = student.spec.heads;
  Tensor total;
  double rows = 0, visible_pairs = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const std::vector<float> mask = visibility_mask(student.spec, lengths[s]);
    for (const float m : mask) visible_pairs += static_cast<double>(m);
    rows += static_cast<double>(lengths[s]);
    std::vector<float> mask_bias;  // added to the scores before the softmax
    for (const float m : mask) mask_bias.push_back(m > 0 ? 0.0f : -1e9f);
    const Tensor mask_or_bias = constant(ctx, {lengths[s], lengths[s]}, divergence ? mask_bias : mask);
    for (int64_t h = 0; h < heads; ++h) {
      const Tensor a = student_scores(h, s), b = teacher_scores(h, s);
      Tensor term;
      if (divergence) {
        const Tensor q = ops::log_softmax(ctx, ops::add(ctx, a, mask_or_bias));
        const Tensor p = ops::log_softmax(plain, ops::add(plain, b, mask_or_bias));
        term = ops::scale(ctx, ops::kl_divergence(ctx, q, p), static_cast<float>(lengths[s]));
      } else {
        const Tensor square = ops::activate(ctx, ops::subtract(ctx, a, b), Activation::kSquare);
        term = ops::sum(ctx, ops::multiply(ctx, square, mask_or_bias));
      }
      total = total.defined() ? ops::add(ctx, total, term) : term;
    }
  }
  return ops::scale(
      ctx, total,
      static_cast<float>(1.0 / ((divergence ? rows : visible_pairs) * static_cast<double>(heads))));
}

}  // namespace makar
