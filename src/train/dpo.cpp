#include "train/dpo.h"

#include <algorithm>

#include "base/sha256.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

constexpr std::pair<const char*, PreferenceLoss> kLosses[] = {
    {"sigmoid", PreferenceLoss::kSigmoid}, {"hinge", PreferenceLoss::kHinge},
    {"ipo", PreferenceLoss::kIpo},         {"kto_pair", PreferenceLoss::kKtoPair},
    {"simpo", PreferenceLoss::kSimPo},     {"orpo", PreferenceLoss::kOrpo}};

}  // namespace

std::optional<PreferenceLoss> preference_loss_named(const std::string& name) {
  for (const auto& [known, loss] : kLosses)
    if (name == known) return loss;
  return std::nullopt;
}

std::vector<std::string> preference_loss_names() {
  std::vector<std::string> out;
  for (const auto& row : kLosses) out.emplace_back(row.first);
  return out;
}

void PairRewards::add(double reward_chosen, double reward_rejected) {
  pairs += 1, chosen += reward_chosen, rejected += reward_rejected;
  correct += reward_chosen > reward_rejected ? 1 : 0;
}

Metrics PairRewards::metrics() const {
  const double n = std::max(1.0, pairs);
  return {{"rewards/chosen", chosen / n},
          {"rewards/rejected", rejected / n},
          {"rewards/margins", (chosen - rejected) / n},
          {"rewards/accuracies", correct / n}};
}

DpoTask::DpoTask(Model& model, AnswerPairs data, const DpoOptions& options, int64_t batch, uint64_t seed)
    : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
      model_(model),
      data_(std::move(data)),
      o_(options) {}

Status DpoTask::score_reference(const Reference& reference, Device& device, Json& identity) {
  Sha256 sum;
  for (const bool validation : {false, true}) {
    Scores& out = validation ? validation_reference_ : train_reference_;
    const size_t count = validation ? held_out_ : count_;
    out.clear();
    while (out.size() < count) {
      std::vector<AnswerPair> pairs;
      for (size_t i = out.size(); i < std::min(out.size() + batch_, count); ++i) {
        MAKAR_TRY(AnswerPair pair, (validation ? data_.validation : data_.train).read(i));
        pairs.push_back(std::move(pair));
      }
      const AnswerBatch answers = batch_answers(pairs);
      Context ctx{device};
      const Tensor sums =
          sequence_sums(ctx, reference.log_probabilities(device, answers.batch, answers.mask)).host();
      for (size_t i = 0; i < pairs.size(); ++i) out.push_back({sums.f32()[i], sums.f32()[pairs.size() + i]});
    }
    sum.add(std::as_bytes(std::span(out)));
  }
  identity["reference"] = sum.hex();
  return Done{};
}

Status DpoTask::prepare_step(uint64_t, Device&) {
  rewards_ = {};
  return Done{};
}

Result<DpoTask::Pairs> DpoTask::read(std::span<const size_t> which, bool validation) const {
  const Scores& reference = validation ? validation_reference_ : train_reference_;
  check(!o_.uses_reference() || reference.size() == (validation ? held_out_ : count_),
        "score_reference() must be called before training");
  Pairs out;
  std::vector<AnswerPair> pairs;
  for (const size_t w : which) {
    MAKAR_TRY(AnswerPair pair, (validation ? data_.validation : data_.train).read(w));
    pairs.push_back(std::move(pair));
    out.reference.push_back(o_.uses_reference() ? reference[w] : std::array<float, 2>{});
  }
  out.answers = batch_answers(pairs);
  return out;
}

PreferencePairs DpoTask::score(ForwardContext& f, const Pairs& pairs) const {
  Context& ctx = f.ops;
  Tensor policy = sequence_log_probabilities(f, model_, pairs.answers.batch, pairs.answers.mask);
  if (!o_.uses_reference()) {
    std::vector<float> inverse_lengths;
    for (const float length : pairs.answers.lengths) inverse_lengths.push_back(1.0f / length);
    policy = ops::multiply(ctx, policy, constant_row(ctx, inverse_lengths));
  }
  std::vector<float> chosen, rejected;
  for (const auto& r : pairs.reference) chosen.push_back(r[0]), rejected.push_back(r[1]);
  const auto n = static_cast<int64_t>(chosen.size());
  const auto halves = ops::split(ctx, policy, {n, n}, 0);
  return {halves[0], halves[1], constant_row(ctx, chosen), constant_row(ctx, rejected)};
}

Tensor DpoTask::loss(Context& ctx, const PreferencePairs& scored) const {
  switch (o_.loss) {
    case PreferenceLoss::kSigmoid:
      return dpo_loss(ctx, scored, o_.beta, o_.smoothing);
    case PreferenceLoss::kHinge:
      return hinge_loss(ctx, scored, o_.beta);
    case PreferenceLoss::kIpo:
      return ipo_loss(ctx, scored, o_.beta);
    case PreferenceLoss::kKtoPair:
      return kto_pair_loss(ctx, scored, o_.beta);
    case PreferenceLoss::kOrpo:
      return orpo_loss(ctx, scored.policy_chosen, scored.policy_rejected, o_.beta);
    case PreferenceLoss::kSimPo:
      break;
  }
  return simpo_loss(ctx, scored.policy_chosen, scored.policy_rejected, o_.beta, o_.gamma);
}

void DpoTask::add_rewards(const PreferencePairs& scored, PairRewards& to) const {
  const Tensor chosen = scored.policy_chosen.host(), rejected = scored.policy_rejected.host();
  const Tensor base_chosen = scored.reference_chosen.host(), base_rejected = scored.reference_rejected.host();
  const double beta = o_.beta;
  for (int64_t i = 0; i < chosen.count(); ++i)
    to.add(beta * (static_cast<double>(chosen.f32()[i]) - base_chosen.f32()[i]),
           beta * (static_cast<double>(rejected.f32()[i]) - base_rejected.f32()[i]));
}

Result<MicroBatch> DpoTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  MAKAR_TRY(Pairs pairs, read(which, validation));
  MicroBatch out;
  out.weight = static_cast<double>(which.size());
  out.tokens = pairs.answers.batch.rows(), out.squared_lengths = squared_lengths(pairs.answers.batch);
  out.loss = [this, validation, pairs = std::move(pairs)](ForwardContext& f) -> Result<Tensor> {
    const PreferencePairs scored = score(f, pairs);
    if (!validation) add_rewards(scored, rewards_);
    return loss(f.ops, scored);
  };
  return out;
}

Result<Metrics> DpoTask::metrics(Device& device) {
  if (held_out_ == 0) return Metrics{};
  PairRewards rewards;
  for (size_t at = 0; at < held_out_; at += batch_) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + batch_, held_out_); ++i) which.push_back(i);
    MAKAR_TRY(const Pairs pairs, read(which, true));
    Context ctx{device};
    ctx.activations = o_.activations;
    ForwardContext f{ctx};
    add_rewards(score(f, pairs), rewards);
  }
  return rewards.metrics();
}

}  // namespace makar
