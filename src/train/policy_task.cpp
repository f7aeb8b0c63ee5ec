#include "train/policy_task.h"

#include <algorithm>
#include <cmath>

#include "data/permutation.h"

namespace makar {
namespace {

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

double deviation_of(const std::vector<double>& x) {
  const double mean = mean_of(x);
  double sum = 0;
  for (const double v : x) sum += (v - mean) * (v - mean);
  return x.size() > 1 ? std::sqrt(sum / static_cast<double>(x.size() - 1)) : 0;
}

}  // namespace

PolicyTask::PolicyTask(Model& policy, const Tokenizer& tokenizer, PolicyPrompts prompts,
                       std::vector<RewardTerm> rewards, std::optional<Reference> reference,
                       const PolicyOptions& options)
    : policy_(policy),
      o_(options),
      tokenizer_(tokenizer),
      prompts_(std::move(prompts)),
      rewards_(std::move(rewards)),
      reference_(std::move(reference)) {
  check(o_.group > 0 && o_.answers() % o_.group == 0,
        "the answers of a rollout must be a multiple of the group size");
}

uint64_t PolicyTask::batches_per_epoch() const {
  const auto prompts = static_cast<uint64_t>(o_.answers() / o_.group);
  const uint64_t rollouts = (prompts_.train.size() + prompts - 1) / prompts;
  return rollouts * static_cast<uint64_t>(o_.steps() * o_.accumulate);
}

Status PolicyTask::prepare_step(uint64_t step, Device& device) {
  if (left_ == 0 || stops_early()) MAKAR_RETURN_IF_ERROR(collect(step, device));
  --left_;
  sums_ = {};
  return Done{};
}

std::string PolicyTask::text_of(const Rollout& r) const {
  std::vector<uint32_t> ids;
  for (size_t i = static_cast<size_t>(r.prompt_tokens); i < r.tokens.size(); ++i)
    ids.push_back(static_cast<uint32_t>(r.tokens[i]));
  if (r.finish == Finish::kStop && !ids.empty()) ids.pop_back();
  return tokenizer_.decode(ids, true);
}

Result<SummedRewards> PolicyTask::compute_rewards(std::span<const Rollout> rollouts,
                                                  std::span<const PolicyPrompt> prompts,
                                                  Device& device) const {
  std::vector<Json> records, turns;
  for (const PolicyPrompt& p : prompts) {
    MAKAR_TRY(records.emplace_back(), parse_json(p.record, "prompt"));
    MAKAR_TRY(turns.emplace_back(), parse_json(p.turns, "prompt"));
  }
  std::vector<RewardInput> answers;
  for (const Rollout& r : rollouts)
    answers.push_back({records[r.prompt], turns[r.prompt], text_of(r), r.finish == Finish::kStop});
  MAKAR_TRY(SummedRewards out, sum_rewards(rewards_, answers, device));
  for (size_t i = 0; i < rollouts.size(); ++i)
    if (rollouts[i].finish != Finish::kStop) out.rewards[i] -= o_.missing_eos_penalty;
  return out;
}

Status PolicyTask::collect(uint64_t step, Device& device) {
  const auto count = static_cast<uint64_t>(o_.answers() / o_.group);
  std::vector<PolicyPrompt> prompts;
  std::vector<std::vector<int64_t>> ids;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = collections_ * count + i, size = prompts_.train.size();
    MAKAR_TRY(PolicyPrompt p, prompts_.train.read(Permutation(size, o_.seed, at / size)(at % size)));
    ids.push_back(p.ids);
    prompts.push_back(std::move(p));
  }
  RolloutOptions options;
  options.max_new_tokens = o_.max_new_tokens, options.answers = o_.group, options.stop = o_.stop;
  options.sampler.temperature = 1, options.seed = o_.seed, options.step = step;
  options.activations = o_.activations;
  PolicyBuffer buffer;
  MAKAR_TRY(buffer.rollouts, roll_out(policy_, device, ids, options));
  MAKAR_TRY(SummedRewards computed, compute_rewards(buffer.rollouts, prompts, device));
  buffer.rewards = std::move(computed.rewards), means_ = std::move(computed.means);
  for (const Rollout& r : buffer.rollouts)
    buffer.starts.push_back(buffer.starts.back() + static_cast<int64_t>(r.log_probabilities.size()));
  difference_ = 0;
  const auto micro = static_cast<size_t>(o_.micro_batch);
  for (size_t at = 0; at < buffer.rollouts.size(); at += micro) {
    const std::span part =
        std::span(buffer.rollouts).subspan(at, std::min(micro, buffer.rollouts.size() - at));
    const RolloutBatch batch = batch_rollouts(part);
    if (reference_) {
      const Tensor values = reference_->log_probabilities(device, batch.batch, batch.mask).values.host();
      buffer.reference.insert(buffer.reference.end(), values.f32(), values.f32() + values.count());
    }
    if (o_.steps() == 1) continue;  // the only step checks them before its update
    Context ctx{device};
    ctx.activations = o_.activations;
    ForwardContext f{ctx};
    std::vector<float> sampled;
    for (const Rollout& r : part)
      sampled.insert(sampled.end(), r.log_probabilities.begin(), r.log_probabilities.end());
    MAKAR_RETURN_IF_ERROR(check_log_probabilities(
        sampled, token_log_probabilities(f, policy_, batch.batch, batch.mask).values));
  }
  MAKAR_RETURN_IF_ERROR(estimate(buffer, device));
  buffer_ = std::move(buffer);
  collected_at_ = step, left_ = o_.steps(), ++collections_;
  return Done{};
}

Status PolicyTask::check_log_probabilities(std::span<const float> sampled, const Tensor& trained) {
  const Tensor host = trained.host();
  check(host.count() == static_cast<int64_t>(sampled.size()), "one log-probability per sampled token");
  double worst = 0;
  for (size_t i = 0; i < sampled.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(sampled[i]) - host.f32()[i]);
    if (!(difference <= worst)) worst = difference;
  }
  difference_ = std::max(difference_, worst);
  if (worst == 0) return Done{};
  return error_at(
      "rollout",
      "the log-probabilities of sampler and trainer differ by {} with the same weights; this is a defect of "
      "makar on this device, please report it",
      worst);
}

PolicySlice PolicyTask::slice(std::span<const size_t> which) const {
  PolicySlice out;
  std::vector<Rollout> rollouts;
  for (const size_t w : which) {
    const Rollout& r = buffer_.rollouts[w];
    rollouts.push_back(r);
    const bool counted = !o_.mask_truncated || r.finish == Finish::kStop;
    out.old.insert(out.old.end(), r.log_probabilities.begin(), r.log_probabilities.end());
    out.counted.insert(out.counted.end(), r.log_probabilities.size(), counted ? 1.0f : 0.0f);
    if (counted) out.tokens += static_cast<double>(r.log_probabilities.size());
    out.starts.push_back(static_cast<int64_t>(out.old.size()));
    const auto add = [&](const std::vector<float>& from, std::vector<float>& to) {
      if (!from.empty())
        to.insert(to.end(), from.begin() + buffer_.starts[w], from.begin() + buffer_.starts[w + 1]);
    };
    add(buffer_.reference, out.reference), add(buffer_.advantages, out.advantages);
    add(buffer_.values, out.values), add(buffer_.returns, out.returns);
  }
  out.answers = batch_rollouts(rollouts);
  return out;
}

Result<MicroBatch> PolicyTask::train_batch(uint64_t index) {
  // Steps of this rollout already done, the pass over its answers, and the index of this micro-batch in that
  // pass.
  const auto done = static_cast<uint64_t>(o_.steps() - 1 - left_);
  const auto per_pass = static_cast<uint64_t>(o_.steps_per_generation),
             accumulate = static_cast<uint64_t>(o_.accumulate);
  const uint64_t pass = done / per_pass, at = done % per_pass * accumulate + index % accumulate;
  const auto micro = static_cast<uint64_t>(o_.micro_batch);
  // "policy" in ASCII separates this order from the order of the prompts; a rollout has at most 64 passes.
  const Permutation order(buffer_.rollouts.size(), o_.seed ^ 0x706f6c696379, collected_at_ * 64 + pass);
  std::vector<size_t> which;
  for (uint64_t i = at * micro; i < (at + 1) * micro; ++i) which.push_back(order(i));
  PolicySlice s = slice(which);
  MicroBatch out;
  out.weight = weight_of(s);
  out.tokens = s.answers.batch.rows(), out.squared_lengths = squared_lengths(s.answers.batch);
  const bool fresh = o_.steps() == 1;
  out.loss = [this, fresh, s = std::move(s)](ForwardContext& f) -> Result<Tensor> {
    const Tensor log_probabilities =
        token_log_probabilities(f, policy_, s.answers.batch, s.answers.mask).values;
    if (fresh) MAKAR_RETURN_IF_ERROR(check_log_probabilities(s.old, log_probabilities));
    return loss(f, s, log_probabilities);
  };
  return out;
}

void PolicyTask::count(const PolicySlice& s, const Tensor& log_probabilities, float low, float high) {
  const Tensor current = log_probabilities.host();
  for (size_t i = 0; i < s.old.size(); ++i) {
    if (s.counted[i] == 0) continue;
    const double log_ratio = static_cast<double>(current.f32()[i]) - s.old[i], ratio = std::exp(log_ratio);
    const bool clipped = s.advantages[i] > 0 ? ratio > 1.0 + high : s.advantages[i] < 0 && ratio < 1.0 - low;
    sums_.tokens += 1, sums_.clipped += clipped ? 1 : 0, sums_.sampler_kl += ratio - 1 - log_ratio;
    if (s.reference.empty()) continue;
    const double d = static_cast<double>(s.reference[i]) - current.f32()[i];
    sums_.kl += std::exp(d) - d - 1;
  }
}

Metrics PolicyTask::step_metrics() const {
  const double tokens = std::max(1.0, sums_.tokens);
  double length = 0, truncated = 0;
  for (const Rollout& r : buffer_.rollouts)
    length += static_cast<double>(r.log_probabilities.size()), truncated += r.finish == Finish::kStop ? 0 : 1;
  const double answers = std::max(1.0, static_cast<double>(buffer_.rollouts.size()));
  Metrics out = {{"reward", mean_of(buffer_.rewards)}, {"reward std", deviation_of(buffer_.rewards)},
                 {"clip", sums_.clipped / tokens},     {"length", length / answers},
                 {"truncated", truncated / answers},   {"logp diff", difference_}};
  if (reference_) out["kl"] = sums_.kl / tokens;
  if (rewards_.size() > 1)
    for (size_t i = 0; i < rewards_.size(); ++i) out["reward/" + rewards_[i].name] = means_[i];
  add_metrics(out);
  return out;
}

Result<Metrics> PolicyTask::metrics(Device& device) {
  constexpr size_t kPromptsPerBatch = 256;
  std::vector<double> rewards;
  std::vector<double> terms(rewards_.size(), 0);
  double length = 0;
  for (size_t at = 0; at < prompts_.validation.size(); at += kPromptsPerBatch) {
    std::vector<PolicyPrompt> prompts;
    std::vector<std::vector<int64_t>> ids;
    for (size_t i = at; i < std::min(at + kPromptsPerBatch, prompts_.validation.size()); ++i) {
      MAKAR_TRY(prompts.emplace_back(), prompts_.validation.read(i));
      ids.push_back(prompts.back().ids);
    }
    RolloutOptions options;
    options.max_new_tokens = o_.max_new_tokens, options.stop = o_.stop, options.sampler.temperature = 0;
    options.activations = o_.activations;
    MAKAR_TRY(const auto rollouts, roll_out(policy_, device, ids, options));
    MAKAR_TRY(const SummedRewards computed, compute_rewards(rollouts, prompts, device));
    rewards.insert(rewards.end(), computed.rewards.begin(), computed.rewards.end());
    for (size_t i = 0; i < terms.size(); ++i)
      terms[i] += computed.means[i] * static_cast<double>(rollouts.size());
    for (const Rollout& r : rollouts) length += static_cast<double>(r.log_probabilities.size());
  }
  const double n = std::max(1.0, static_cast<double>(rewards.size()));
  Metrics out = {{"reward", mean_of(rewards)}, {"length", length / n}};
  if (terms.size() > 1)
    for (size_t i = 0; i < terms.size(); ++i) out["reward/" + rewards_[i].name] = terms[i] / n;
  return out;
}

Result<std::string> PolicyTask::sample(Device&, int64_t) {
  if (buffer_.rollouts.empty()) return std::string();
  const Rollout& r = buffer_.rollouts[0];
  const std::vector<uint32_t> prompt(r.tokens.begin(), r.tokens.begin() + r.prompt_tokens);
  return fmt::format("{}{}\n(reward {:.4g})", tokenizer_.decode(prompt, true), text_of(r),
                     buffer_.rewards[0]);
}

}  // namespace makar
