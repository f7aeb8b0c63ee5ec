// Training on data generated during the run: rollouts by the engine on the weights being trained, two models
// in one loop, a reference, and state of the task in checkpoints.
#include "train/rollout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_device.h"
#include "kernels/fence_device.h"
#include "models/adapter.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "scratch_folder.h"
#include "train/loop.h"
#include "train/preference.h"
#include "train/reference.h"
#include "train/shapes.h"

namespace makar {
namespace {

constexpr int64_t kRewardedToken = 5;  // the token that the reward counts

LoadedModel tiny(const std::string& type, uint64_t seed, bool value = false) {
  ShapeOptions o;
  o.type = type, o.layers = 2, o.width = 16, o.heads = 2, o.context = 64, o.vocab = 11;
  Json config = *shape_config(o);
  if (value) {
    config["architectures"] = {type == "gpt2" ? "GPT2ForSequenceClassification"
                                              : "LlamaForSequenceClassification"};
    config["num_labels"] = 1;
    config.erase("tie_word_embeddings");
  }
  auto loaded = make_model(Config(config, "test"));
  check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
  initialize(*loaded->model, seed);
  return std::move(*loaded);
}

std::vector<float> weights(const Model& model) {
  std::vector<float> out;
  for (const auto& p : model.parameters().all())
    if (!p->buffer) out.insert(out.end(), p->value.f32(), p->value.f32() + p->value.count());
  return out;
}

std::vector<float> values(const Tensor& t) {
  const Tensor host = t.host();
  return {host.f32(), host.f32() + host.count()};
}

// The trainer's log-probabilities of the answers, with a tape as in a training step.
std::vector<float> trained_log_probabilities(Model& model, Device& device,
                                             std::span<const Rollout> rollouts) {
  const RolloutBatch b = batch_rollouts(rollouts);
  Tape tape(device);
  model.parameters().watch(tape);
  Context ctx{device, &tape};
  ForwardContext f{ctx};
  return values(token_log_probabilities(f, model, b.batch, b.mask).values);
}

std::vector<float> sampled_log_probabilities(std::span<const Rollout> rollouts) {
  std::vector<float> out;
  for (const Rollout& r : rollouts)
    out.insert(out.end(), r.log_probabilities.begin(), r.log_probabilities.end());
  return out;
}

const std::vector<std::vector<int64_t>> kPrompts = {{1, 2, 3}, {4}, {9, 8, 7, 6, 5, 4}, {2, 2}};

RolloutOptions options(uint64_t step, int64_t max = 8) {
  RolloutOptions o;
  o.max_new_tokens = max, o.answers = 2, o.sampler.temperature = 1, o.seed = 7, o.step = step;
  o.stop = {0};
  return o;
}

TEST(Rollout, LogProbabilitiesHaveTheTrainersBits) {
  for (const char* type : {"gpt2", "llama"}) {
    LoadedModel policy = tiny(type, 3);
    CpuDevice device(2);
    const auto rollouts = roll_out(*policy.model, device, kPrompts, options(0, 40));
    ASSERT_TRUE(rollouts.ok()) << rollouts.error().text();
    ASSERT_EQ(rollouts->size(), 8u);
    const auto sampled = sampled_log_probabilities(*rollouts);
    EXPECT_GT(sampled.size(), 20u);
    EXPECT_EQ(sampled, trained_log_probabilities(*policy.model, device, *rollouts)) << type;
    EXPECT_NE((*rollouts)[0].tokens, (*rollouts)[1].tokens)
        << "two answers to one prompt are sampled separately";
  }
}

// After an update, sampling and training use the new weights, as a model that was never packed does.
TEST(Rollout, FollowsEveryUpdateOfTheWeights) {
  LoadedModel policy = tiny("gpt2", 3), fresh = tiny("gpt2", 3);
  CpuDevice device(1);
  const auto before = roll_out(*policy.model, device, kPrompts, options(0));
  ASSERT_TRUE(before.ok());
  for (const LoadedModel* m : {&policy, &fresh})
    for (const auto& p : m->model->parameters().all())
      for (int64_t i = 0; i < p->value.count(); ++i) p->value.f32()[i] *= 1.25f;
  const auto expected = trained_log_probabilities(*fresh.model, device, *before);
  EXPECT_NE(sampled_log_probabilities(*before), expected);
  EXPECT_EQ(trained_log_probabilities(*policy.model, device, *before), expected);
  const auto after = roll_out(*policy.model, device, kPrompts, options(0));
  const auto fresh_rollouts = roll_out(*fresh.model, device, kPrompts, options(0));
  ASSERT_TRUE(after.ok() && fresh_rollouts.ok());
  EXPECT_EQ(sampled_log_probabilities(*after), sampled_log_probabilities(*fresh_rollouts));
}

// On a device whose memory the host cannot read.
TEST(Rollout, AnotherDeviceGivesTheSameBits) {
  CpuDevice cpu(1);
  FenceDevice fence(1);  // outlives the tensors in its memory
  LoadedModel policy = tiny("llama", 3), fence_policy = tiny("llama", 3);
  const auto expected = roll_out(*policy.model, cpu, kPrompts, options(0));
  const auto on_fence = roll_out(*fence_policy.model, fence, kPrompts, options(0));
  ASSERT_TRUE(expected.ok() && on_fence.ok());
  EXPECT_EQ(sampled_log_probabilities(*on_fence), sampled_log_probabilities(*expected));
  EXPECT_EQ(trained_log_probabilities(*fence_policy.model, fence, *on_fence),
            sampled_log_probabilities(*on_fence));
}

TEST(Rollout, DependsOnSeedAndStepNotOnThreadsOrPages) {
  LoadedModel policy = tiny("llama", 3);
  CpuDevice one(1), two(2);
  const auto tokens = [&](Device& device, RolloutOptions o) {
    const auto rollouts = roll_out(*policy.model, device, kPrompts, o);
    check(rollouts.ok(), rollouts.ok() ? "" : rollouts.error().text());
    std::vector<std::vector<int64_t>> out;
    for (const Rollout& r : *rollouts) out.push_back(r.tokens);
    return out;
  };
  RolloutOptions few_pages = options(0);
  few_pages.max_pages = 2;
  EXPECT_EQ(tokens(one, options(0)), tokens(two, options(0)));
  EXPECT_EQ(tokens(one, options(0)), tokens(one, few_pages));
  EXPECT_NE(tokens(one, options(0)), tokens(one, options(1)));
}

TEST(Rollout, RejectsModelsThatDoNotGenerateAndPromptsThatDoNotFit) {
  CpuDevice device(1);
  LoadedModel bert = tiny("bert", 3), policy = tiny("gpt2", 3);
  EXPECT_FALSE(roll_out(*bert.model, device, kPrompts, options(0)).ok());
  EXPECT_FALSE(roll_out(*policy.model, device, kPrompts, options(0, 100)).ok());
  const std::vector<std::vector<int64_t>> outside = {{1, 99}};
  EXPECT_FALSE(roll_out(*policy.model, device, outside, options(0)).ok());
}

TEST(Reference, AnAdapterTurnedOffIsTheBaseModel) {
  LoadedModel base = tiny("llama", 3), adapted = tiny("llama", 3);
  CpuDevice device(1);
  AdapterConfig config;
  config.rank = 2, config.alpha = 4, config.targets = {"all-linear"};
  ASSERT_TRUE(add_adapter(adapted, config, device, 5).ok());
  for (const auto& p : adapted.model->parameters().all())
    if (p->trainable && !p->buffer)
      for (int64_t i = 0; i < p->value.count(); ++i)
        p->value.f32()[i] = 0.01f * static_cast<float>(i % 7 - 3);
  const auto rollouts = roll_out(*adapted.model, device, kPrompts, options(0));
  ASSERT_TRUE(rollouts.ok()) << rollouts.error().text();
  EXPECT_EQ(sampled_log_probabilities(*rollouts),
            trained_log_probabilities(*adapted.model, device, *rollouts));
  const RolloutBatch b = batch_rollouts(*rollouts);
  const auto off = Reference::without_adapter(*adapted.model);
  ASSERT_TRUE(off.ok()) << off.error().text();
  const auto reference = values(off->log_probabilities(device, b.batch, b.mask).values);
  EXPECT_EQ(reference, values(Reference(*base.model).log_probabilities(device, b.batch, b.mask).values));
  EXPECT_NE(reference, sampled_log_probabilities(*rollouts));
  // Without an adapter, or with other weights trained too, there is no base model to compare with.
  EXPECT_FALSE(Reference::without_adapter(*base.model).ok());
  adapted.model->parameters().find("decoder.norm.weight")->trainable = true;
  EXPECT_FALSE(Reference::without_adapter(*adapted.model).ok());
}

// An adapter that exists before training is part of the reference, which training does not change.
TEST(Reference, ACopyIsTheModelBeforeTraining) {
  LoadedModel adapted = tiny("llama", 3);
  CpuDevice device(1);
  AdapterConfig config;
  config.rank = 2, config.alpha = 4, config.targets = {"all-linear"};
  ASSERT_TRUE(add_adapter(adapted, config, device, 5).ok());
  adapted.model->parameters().find("decoder.norm.weight")->trainable = true;
  const auto add = [&](float x) {
    for (const auto& p : adapted.model->parameters().all())
      if (p->trainable && !p->buffer)
        for (int64_t i = 0; i < p->value.count(); ++i) p->value.f32()[i] += x * static_cast<float>(i % 7 - 3);
  };
  add(0.01f);
  const auto rollouts = roll_out(*adapted.model, device, kPrompts, options(0));
  ASSERT_TRUE(rollouts.ok()) << rollouts.error().text();
  const auto before = sampled_log_probabilities(*rollouts);
  const Reference reference = Reference::copy_of(*adapted.model, device);
  add(0.02f);
  const auto trained = trained_log_probabilities(*adapted.model, device, *rollouts);
  EXPECT_NE(trained, before);
  const RolloutBatch b = batch_rollouts(*rollouts);
  EXPECT_EQ(values(reference.log_probabilities(device, b.batch, b.mask).values), before);
  EXPECT_EQ(trained_log_probabilities(*adapted.model, device, *rollouts), trained) << "the weights are back";
}

// A small PPO: a policy, a value model, a frozen reference for the KL penalty with a controller, rollouts
// every third step. The buffer and the controller's coefficient are the state.
class PolicyTask : public Task {
 public:
  PolicyTask(Model& policy, Model& value, const Model& reference)
      : policy_(policy), value_(value), reference_(reference) {}

  Status prepare_step(uint64_t step, Device& device) override {
    if (left_ == 0) MAKAR_RETURN_IF_ERROR(collect(step, device));
    --left_;
    return Done{};
  }
  Result<MicroBatch> train_batch(uint64_t) override {
    const RolloutBatch b = batch_rollouts(buffer_);
    MicroBatch out;
    out.weight = static_cast<double>(old_.count()), out.tokens = b.batch.rows();
    out.loss = [this, b](ForwardContext& f) -> Result<Tensor> {
      const Tensor current = token_log_probabilities(f, policy_, b.batch, b.mask).values;
      return ops::add(
          f.ops, clipped_policy_loss(f.ops, current, old_, advantages_, 0.2f),
          ops::scale(f.ops, clipped_value_loss(f.ops, scores(f, b), old_values_, returns_, 0.2f), 0.5f));
    };
    return out;
  }
  uint64_t batches_per_epoch() const override { return 1; }
  Metrics step_metrics() const override { return {{"reward", reward_}, {"sampler_difference", difference_}}; }

  TaskState state() const override {
    TaskState out;
    out.values = {
        {"left", left_}, {"kl_weight", kl_weight_}, {"reward", reward_}, {"rollouts", Json::array()}};
    for (const Rollout& r : buffer_)
      out.values["rollouts"].push_back({{"tokens", r.tokens}, {"prompt_tokens", r.prompt_tokens}});
    if (old_.defined())
      out.tensors = {
          {"old", old_}, {"old_values", old_values_}, {"advantages", advantages_}, {"returns", returns_}};
    return out;
  }
  Status restore(const TaskState& s) override {
    if (s.empty()) return error_at("checkpoint", "holds no state of this task");
    left_ = s.values.at("left"), kl_weight_ = s.values.at("kl_weight"), reward_ = s.values.at("reward");
    buffer_.clear();
    for (const Json& r : s.values.at("rollouts")) {
      Rollout rollout;
      rollout.tokens = r.at("tokens").get<std::vector<int64_t>>(),
      rollout.prompt_tokens = r.at("prompt_tokens");
      buffer_.push_back(std::move(rollout));
    }
    if (s.tensors.empty()) return Done{};
    old_ = s.tensors.at("old"), old_values_ = s.tensors.at("old_values");
    advantages_ = s.tensors.at("advantages"), returns_ = s.tensors.at("returns");
    return Done{};
  }

  int collected = 0;

 private:
  // The value of each scored token: the value head on the row before it. [scored tokens]
  Tensor scores(ForwardContext& f, const RolloutBatch& b) const {
    Inputs inputs;
    inputs.source = b.batch;
    std::vector<int64_t> rows;
    for (size_t i = 0; i < b.mask.size(); ++i)
      if (b.mask[i] != 0) rows.push_back(static_cast<int64_t>(i) - 1);
    const Tensor all = value_.row_scores(f.ops, value_.hidden(f, inputs));
    return ops::reshape(f.ops, ops::gather_rows(f.ops, all, rows), {static_cast<int64_t>(rows.size())});
  }

  Status collect(uint64_t step, Device& device) {
    left_ = 3, ++collected;
    MAKAR_TRY(buffer_, roll_out(policy_, device, kPrompts, options(step)));
    const RolloutBatch b = batch_rollouts(buffer_);
    const auto sampled = sampled_log_probabilities(buffer_);
    const auto count = static_cast<int64_t>(sampled.size());
    const auto trained = trained_log_probabilities(policy_, device, buffer_);
    difference_ = 0;
    for (size_t i = 0; i < sampled.size(); ++i)
      difference_ = std::max<double>(difference_, std::fabs(sampled[i] - trained[i]));
    old_ = Tensor::from({count}, std::span<const float>(sampled));
    const ScoredTokens reference = reference_.log_probabilities(device, b.batch, b.mask);
    Context ctx{device};
    ForwardContext f{ctx};
    old_values_ = scores(f, b);
    Tensor rewards = Tensor::zeros({count});
    double kl = 0;
    reward_ = 0;
    int64_t at = 0;
    for (const Rollout& r : buffer_) {
      for (size_t i = static_cast<size_t>(r.prompt_tokens); i < r.tokens.size(); ++i, ++at) {
        const double log_ratio = old_.f32()[at] - reference.values.f32()[at];
        const double rewarded = r.tokens[i] == kRewardedToken ? 1 : 0;
        kl += log_ratio, reward_ += rewarded;
        rewards.f32()[at] = static_cast<float>(rewarded - kl_weight_ * log_ratio);
      }
    }
    const Advantages a = generalised_advantages(rewards, old_values_, reference.starts, 1.0, 0.95);
    advantages_ = whiten(a.advantages), returns_ = a.returns;
    kl_weight_ *= kl / static_cast<double>(count) > 0.5 ? 1.1 : 1 / 1.1;
    reward_ /= static_cast<double>(count);
    return Done{};
  }

  Model &policy_, &value_;
  Reference reference_;
  std::vector<Rollout> buffer_;
  Tensor old_, old_values_, advantages_, returns_;
  int64_t left_ = 0;
  double kl_weight_ = 0.05, reward_ = 0, difference_ = 0;
};

struct PolicyRun {
  LoadedModel policy = tiny("llama", 3), value = tiny("llama", 4, true), reference = tiny("llama", 3);
  PolicyTask task{*policy.model, *value.model, *reference.model};
  LoopSettings settings;
  std::vector<double> rewards;
  double difference = 0;
  explicit PolicyRun(const std::string& folder, int64_t steps) {
    settings.output_dir = folder, settings.max_steps = steps;
    settings.learning_rate = 1e-2, settings.lr_scheduler = "constant";
  }
  Result<LoopResult> run(int threads = 1, int64_t stop_at = -1) {
    CpuDevice device(threads);
    std::atomic<bool> stop{false};
    LoopEvents events;
    events.step = [&](const StepInfo& i) {
      stop = i.step == stop_at;
      rewards.push_back(i.metrics.at("reward"));
      difference = std::max(difference, i.metrics.at("sampler_difference"));
    };
    const TrainedModels models({{policy.model.get()}, {value.model.get(), "value", 0.5}});
    return run_loop({models, task, settings, device, events, &stop, Json::object()});
  }
};

TEST(PolicyTraining, TrainsTwoModelsAndRaisesTheReward) {
  ScratchFolder folder;
  PolicyRun run(folder / "run", 90);
  const auto value_before = weights(*run.value.model), reference_before = weights(*run.reference.model);
  const auto result = run.run();
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(run.difference, 0.0) << "sampler and trainer compute the same bits";
  EXPECT_EQ(run.task.collected, 30);
  EXPECT_GT(run.rewards.back(), run.rewards.front() + 0.3)
      << run.rewards.front() << " " << run.rewards.back();
  EXPECT_NE(weights(*run.value.model), value_before);
  EXPECT_EQ(weights(*run.reference.model), reference_before);
}

// Stopped between two rollouts, with part of the buffer used, and continued by new objects.
TEST(PolicyTraining, ResumesExactlyInTheMiddleOfABuffer) {
  ScratchFolder folder;
  PolicyRun uninterrupted(folder / "whole", 14);
  uninterrupted.settings.ema = 0.9;
  ASSERT_TRUE(uninterrupted.run().ok());
  for (const int64_t stop_at : {3, 7, 8}) {
    const std::string path = folder / fmt::format("stopped-{}", stop_at);
    PolicyRun first(path, 14), second(path, 14);
    first.settings.ema = second.settings.ema = 0.9;
    const auto stopped = first.run(1, stop_at);
    ASSERT_TRUE(stopped.ok()) << stopped.error().text();
    EXPECT_TRUE(stopped->interrupted);
    const auto resumed = second.run(2);
    ASSERT_TRUE(resumed.ok()) << resumed.error().text();
    EXPECT_EQ(weights(*second.policy.model), weights(*uninterrupted.policy.model)) << stop_at;
    EXPECT_EQ(weights(*second.value.model), weights(*uninterrupted.value.model)) << stop_at;
    EXPECT_EQ(first.task.collected + second.task.collected, uninterrupted.task.collected);
  }
}

TEST(PolicyTraining, ACheckpointOfOtherModelsIsRejected) {
  ScratchFolder folder;
  PolicyRun run(folder / "run", 6);
  ASSERT_TRUE(run.run(1, 4).ok());
  PolicyRun other(folder / "run", 6);
  CpuDevice device(1);
  const auto result =
      run_loop({*other.policy.model, other.task, other.settings, device, {}, nullptr, Json::object()});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().text().find("'value/'"), std::string::npos) << result.error().text();
}

}  // namespace
}  // namespace makar
