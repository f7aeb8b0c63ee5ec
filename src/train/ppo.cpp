#include "train/ppo.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

Tensor row_of(const std::vector<float>& v) {
  return Tensor::from({static_cast<int64_t>(v.size())}, std::span<const float>(v));
}

std::vector<float> list_of(const Tensor& t) { return {t.f32(), t.f32() + t.count()}; }

}  // namespace

std::vector<float> penalised_rewards(const PolicyBuffer& b, double kl_weight) {
  std::vector<float> out;
  for (size_t i = 0; i < b.rollouts.size(); ++i) {
    for (const float sampled : b.rollouts[i].log_probabilities)
      out.push_back(
          static_cast<float>(-kl_weight * (static_cast<double>(sampled) - b.reference[out.size()])));
    out.back() = static_cast<float>(out.back() + b.rewards[i]);
  }
  return out;
}

double adapted_weight(double weight, double divergence, double target, double answers, double horizon) {
  const double error = std::clamp(divergence / target - 1, -0.2, 0.2);
  return weight * (1 + error * answers / horizon);
}

PpoTask::PpoTask(Model& policy, Model& value, const Tokenizer& tokenizer, PolicyPrompts prompts,
                 std::vector<RewardTerm> rewards, Reference reference, const PolicyOptions& options,
                 const PpoOptions& ppo)
    : PolicyTask(policy, tokenizer, std::move(prompts), std::move(rewards), std::move(reference), options),
      value_(value),
      p_(ppo),
      kl_weight_(ppo.kl_weight) {}

Tensor PpoTask::values(ForwardContext& f, const RolloutBatch& answers) const {
  Inputs inputs;
  inputs.source = answers.batch;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < answers.mask.size(); ++i)
    if (answers.mask[i] != 0) rows.push_back(static_cast<int64_t>(i) - 1);
  const Tensor hidden = ops::gather_rows(f.ops, value_.hidden(f, inputs), rows);
  return ops::reshape(f.ops, value_.row_scores(f.ops, hidden), {static_cast<int64_t>(rows.size())});
}

Status PpoTask::estimate(PolicyBuffer& b, Device& device) {
  const auto micro = static_cast<size_t>(o_.micro_batch);
  for (size_t at = 0; at < b.rollouts.size(); at += micro) {
    Context ctx{device};
    ForwardContext f{ctx};
    const Tensor batch_values =
        values(f, batch_rollouts(std::span(b.rollouts).subspan(at, std::min(micro, b.rollouts.size() - at))))
            .host();
    b.values.insert(b.values.end(), batch_values.f32(), batch_values.f32() + batch_values.count());
  }
  Tensor rewards = row_of(penalised_rewards(b, kl_weight_));
  if (p_.whiten_rewards) rewards = whiten(rewards, true);
  const Advantages a = generalised_advantages(rewards, row_of(b.values), b.starts, p_.gamma, p_.lambda);
  b.advantages = list_of(whiten(a.advantages)), b.returns = list_of(a.returns);
  double difference = 0;
  size_t at = 0;
  for (const Rollout& r : b.rollouts)
    for (const float sampled : r.log_probabilities)
      difference += static_cast<double>(sampled) - b.reference[at++];
  const auto answers = static_cast<double>(b.rollouts.size());
  divergence_ = difference / answers;
  if (p_.kl_target > 0)
    kl_weight_ = adapted_weight(kl_weight_, divergence_, p_.kl_target, answers, p_.kl_horizon);
  return Done{};
}

double PpoTask::weight_of(const PolicySlice& s) const { return std::max(1.0, s.tokens); }

Result<Tensor> PpoTask::loss(ForwardContext& f, const PolicySlice& s, const Tensor& log_probabilities) {
  Context& ctx = f.ops;
  count(s, log_probabilities, p_.clip, p_.clip);
  const Tensor policy = clipped_policy_terms(ctx, log_probabilities, constant_row(ctx, s.old),
                                             constant_row(ctx, s.advantages), p_.clip, p_.clip);
  const Tensor value = clipped_value_terms(ctx, values(f, s.answers), constant_row(ctx, s.values),
                                           constant_row(ctx, s.returns), p_.value_clip);
  const Tensor host = value.host();
  for (int64_t i = 0; i < host.count(); ++i)
    sums_.value_loss += 0.5 * host.f32()[i] * s.counted[static_cast<size_t>(i)];
  std::vector<float> weights = s.counted;
  for (float& v : weights) v /= static_cast<float>(std::max(1.0, s.tokens));
  const Tensor terms = ops::add(ctx, policy, ops::scale(ctx, value, 0.5f * p_.value_weight));
  return ops::sum(ctx, ops::multiply(ctx, terms, constant_row(ctx, weights)));
}

bool PpoTask::stops_early() const { return p_.stop_kl > 0 && sums_.approximate_kl() > p_.stop_kl; }

void PpoTask::add_metrics(Metrics& metrics) const {
  metrics["value loss"] = sums_.value_loss / std::max(1.0, sums_.tokens);
  metrics["kl weight"] = kl_weight_;
  metrics["kl per answer"] = divergence_;
  metrics["step kl"] = sums_.approximate_kl();
}

void PpoTask::add_state(TaskState& state) const {
  state.values["kl_weight"] = kl_weight_, state.values["divergence"] = divergence_;
}

Status PpoTask::restore_more(const TaskState& state) {
  for (const auto& [key, to] : {std::pair("kl_weight", &kl_weight_), {"divergence", &divergence_}}) {
    const auto it = state.values.find(key);
    if (it == state.values.end() || !it->is_number())
      return error_at("checkpoint", "holds no {} of PPO; use another output_dir, or --overwrite", key);
    *to = it->get<double>();
  }
  if (!buffer_.rollouts.empty() &&
      (buffer_.values.size() != buffer_.advantages.size() || buffer_.returns.size() != buffer_.values.size()))
    return error_at("checkpoint", "holds no values of PPO; use another output_dir, or --overwrite");
  return Done{};
}

}  // namespace makar
