#include "train/loop.h"

#include <chrono>
#include <cmath>

#include "ops/elementwise.h"
#include "optim/gradient_norm.h"
#include "train/background_save.h"
#include "train/run_folder.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

class Trainer {
 public:
  Trainer(const Loop& loop, Optimizer optimizer, Schedule schedule, int64_t total)
      : l_(loop),
        s_(loop.settings),
        optimizer_(std::move(optimizer)),
        schedule_(schedule),
        total_(total),
        log_(s_.output_dir) {
    if (s_.ema > 0)
      for (const auto& p : l_.model.parameters().all())
        if (p->trainable && !p->buffer) averages_[p->name] = p->value.clone();
    state_.settings = to_json(s_);
    state_.settings["identity"] = l_.identity;
    state_.settings["total_steps"] = total;
  }

  Result<LoopResult> run() {
    MAKAR_TRY(result_.finished_before, look_for_earlier_run());
    if (result_.finished_before) return result_;
    MAKAR_CHECK_OK(resume());
    MAKAR_CHECK_OK(write_unfinished_run(s_.output_dir, state_.settings));
    result_.settings = state_.settings;
    MAKAR_CHECK_OK(log_.open(state_.step));
    const auto begin = Clock::now();
    const int64_t first = state_.step;
    while (state_.step < total_ && !result_.stopped_early) {
      if (l_.stop && l_.stop->load()) {
        result_.interrupted = true;
        break;
      }
      const auto start = Clock::now();
      MAKAR_TRY(StepInfo info, step());
      info.seconds = since(start);
      info.eta =
          since(begin) / static_cast<double>(state_.step - first) * static_cast<double>(total_ - state_.step);
      result_.last_loss = info.loss, result_.tokens += info.tokens;
      MAKAR_CHECK_OK(log_.step(info));
      if (l_.events.step) l_.events.step(info);
      if (!info.applied) {
        MAKAR_CHECK_OK(not_finite(info));
        continue;
      }
      bad_in_a_row_ = 0;
      MAKAR_CHECK_OK(saving_.poll());
      MAKAR_CHECK_OK(after_step());
    }
    result_.seconds = since(begin), result_.steps = state_.step, result_.bad_steps = state_.bad_steps;
    if (result_.interrupted) {
      MAKAR_CHECK_OK(save());
      MAKAR_CHECK_OK(saving_.wait());
      return result_;
    }
    MAKAR_CHECK_OK(saving_.wait());
    if (!averages_.empty())
      for (const auto& p : l_.model.parameters().all())
        if (const auto it = averages_.find(p->name); it != averages_.end()) p->value = it->second;
    if (last_validation_ != state_.step || !averages_.empty()) MAKAR_CHECK_OK(evaluate(false));
    MAKAR_CHECK_OK(show_sample());
    return result_;
  }

 private:
  void say(const std::string& text) {
    if (l_.events.say) l_.events.say(text);
  }

  // True if the folder holds a finished run with the same settings. A finished run with other settings, or a
  // model not written by training, is never replaced without --overwrite.
  Result<bool> look_for_earlier_run() {
    const std::string& folder = s_.output_dir;
    if (s_.overwrite) {
      remove_checkpoints(folder);
      return false;
    }
    MAKAR_TRY(const auto earlier, earlier_run(folder));
    if (!earlier && holds_model(folder) && checkpoints(folder).empty())
      return error_at(
          folder,
          "holds a model that no training run wrote there; use another output_dir, or --overwrite to "
          "replace it");
    if (!earlier || !earlier->finished || !holds_model(folder)) return false;
    const std::string differences = setting_differences(earlier->settings, state_.settings);
    if (differences.empty()) return true;
    return error_at(
        folder,
        "holds a finished run with other settings: {}; use another output_dir, or --overwrite to replace "
        "the model",
        differences);
  }

  Status resume() {
    std::vector<std::string> skipped;
    remove_incomplete_checkpoints(s_.output_dir);
    MAKAR_TRY(const auto found, load_checkpoint(s_.output_dir, l_.model, optimizer_, averages_, skipped));
    for (const std::string& line : skipped) say(line);
    if (!found) return Done{};
    const std::string differences = setting_differences(found->settings, state_.settings);
    if (!differences.empty())
      return error_at(
          s_.output_dir,
          "holds a run with other settings: {}; use another output_dir, or --overwrite to start again",
          differences);
    state_ = *found;
    say(fmt::format("resuming at step {} of {}", state_.step, total_));
    return Done{};
  }

  // Computes the gradients of a step and applies the update.
  Result<StepInfo> step() {
    MAKAR_TRY(StepInfo info, step_gradients(l_, static_cast<uint64_t>(state_.step + state_.skipped)));
    info.lr = schedule_.at(state_.step);
    if (info.applied) {
      optimizer_.step(l_.device, info.lr, clip_factor(info.norm, s_.max_grad_norm));
      average();
    }
    info.step = ++state_.step, info.total = total_;
    return info;
  }

  void average() {
    if (averages_.empty()) return;
    const auto keep = static_cast<float>(s_.ema);
    for (const auto& p : l_.model.parameters().all()) {
      const auto it = averages_.find(p->name);
      if (it == averages_.end()) continue;
      l_.device.blend(
          {f32_on(l_.device, p->value), f32_on(l_.device, it->second), p->value.count(), 1.0f - keep});
    }
  }

  // The step was not applied. After three in a row, roll back to the last checkpoint and skip the data since
  // then.
  Status not_finite(const StepInfo& info) {
    ++state_.bad_steps, ++bad_in_a_row_;
    say(fmt::format(
        "step {}: the loss ({}) or the gradient norm ({}) is not finite; the step was not applied", info.step,
        info.loss, info.norm));
    if (bad_in_a_row_ < 3) return Done{};
    bad_in_a_row_ = 0;
    const RunState now = state_;
    std::vector<std::string> skipped;
    MAKAR_CHECK_OK(saving_.wait());
    MAKAR_TRY(const auto found, load_checkpoint(s_.output_dir, l_.model, optimizer_, averages_, skipped));
    if (!found)
      return error_at("training",
                      "three steps in a row were not finite by step {} and there is no checkpoint to roll "
                      "back to; lower learning_rate, or set save_steps",
                      info.step);
    if (++roll_backs_ > 5)
      return error_at("training", "rolled back {} times and still not finite; lower learning_rate",
                      roll_backs_ - 1);
    state_ = *found;
    state_.skipped = now.skipped + (now.step - found->step);
    state_.bad_steps = now.bad_steps;
    last_validation_ = -1;
    say(fmt::format("three steps in a row: rolled back to step {}, skipping the data since then",
                    state_.step));
    return Done{};
  }

  Status after_step() {
    if (s_.eval_steps > 0 && state_.step % s_.eval_steps == 0) MAKAR_CHECK_OK(evaluate(true));
    if (s_.sample_steps > 0 && state_.step % s_.sample_steps == 0 && state_.step < total_)
      MAKAR_CHECK_OK(show_sample());
    if (s_.save_steps > 0 && (state_.step % s_.save_steps == 0 || state_.step == total_))
      MAKAR_CHECK_OK(save());
    return Done{};
  }

  Status evaluate(bool watch) {
    if (l_.task.validation_batches() == 0) return Done{};
    MAKAR_TRY(result_.validation, validate(l_.model, l_.task, l_.device));
    last_validation_ = state_.step;
    MAKAR_CHECK_OK(log_.validation(state_.step, result_.validation));
    if (l_.events.validation) l_.events.validation(state_.step, result_.validation);
    if (!watch) return Done{};
    std::string name = l_.task.watched();
    const double sign = name.starts_with("-") ? -1 : 1;
    if (sign < 0) name.erase(0, 1);
    const auto it = result_.validation.find(name);
    if (it == result_.validation.end()) return Done{};
    const double value = std::isfinite(it->second) ? sign * it->second : -1e300;
    if (state_.validations++ == 0 || value > state_.best)
      state_.best = value, state_.since_best = 0;
    else
      ++state_.since_best;
    if (s_.early_stopping_patience > 0 && state_.since_best >= s_.early_stopping_patience) {
      result_.stopped_early = true;
      say(fmt::format("{} has not become better in {} validations: stopping early", name, state_.since_best));
    }
    return Done{};
  }

  Status show_sample() {
    MAKAR_TRY(const std::string text, l_.task.sample(l_.device, state_.step));
    if (text.empty()) return Done{};
    MAKAR_CHECK_OK(log_.sample(state_.step, text));
    if (l_.events.sample) l_.events.sample(state_.step, text);
    return Done{};
  }

  Status save() {
    for (const auto& p : l_.model.parameters().all())
      if (p->trainable && !p->buffer)
        for (const Tensor on_host = p->value.host(); const float v : on_host.span())
          if (!std::isfinite(v))
            return error_at(
                "training",
                "parameter {} is not finite at step {}: no checkpoint is written; lower learning_rate",
                p->name, state_.step);
    const bool behind = s_.save_in_background;
    auto snapshot = take_snapshot(state_, l_.model, optimizer_, averages_, behind);
    if (!behind) return save_checkpoint(s_.output_dir, snapshot, s_.save_total_limit);
    return saving_.start([run = s_.output_dir, snapshot = std::move(snapshot), keep = s_.save_total_limit] {
      return save_checkpoint(run, snapshot, keep);
    });
  }

  const Loop& l_;
  const LoopSettings& s_;
  Optimizer optimizer_;
  Schedule schedule_;
  int64_t total_;
  RunLog log_;
  RunState state_;
  Averages averages_;
  BackgroundSave saving_;
  LoopResult result_;
  int bad_in_a_row_ = 0, roll_backs_ = 0;
  int64_t last_validation_ = -1;
};

}  // namespace

double training_flops(const Model& model, const MicroBatch& batch) {
  const ModelSpec& spec = model.spec();
  double work = 0;  // FLOPs per token and weight: 2 forward, 2 for the input's gradient, 2 for the weight's
                    // gradient if it is trained
  for (const auto& p : model.parameters().all()) {
    if (p->shape.rank() < 2 || p->buffer) continue;
    const bool output = p->name.ends_with(".embed.tokens.weight") && spec.head.tied &&
                        (spec.head.kind == HeadKind::kCausalLm || spec.head.kind == HeadKind::kMaskedLm);
    if (p->name.find(".embed.") == std::string::npos || output)
      work += static_cast<double>(p->shape.count()) * (p->trainable ? 6 : 4);
  }
  if (spec.encoder && spec.decoder) work /= 2;  // each token passes through one of the two stacks
  double attention = 0;
  for (const BlockSpec& b : spec.main().blocks)
    attention += 12.0 * static_cast<double>(b.attention.heads * b.attention.head_dim) * batch.pairs *
                 (b.attention.causal ? 0.5 : 1.0);
  return work * static_cast<double>(batch.tokens) + attention;
}

Result<Metrics> validate(Model& model, Task& task, Device& device) {
  MAKAR_TRY(Metrics out, task.metrics(device));
  double sum = 0, weight = 0;
  for (uint64_t i = 0; i < task.validation_batches(); ++i) {
    MAKAR_TRY(const MicroBatch b, task.validation_batch(i));
    if (b.weight == 0) continue;
    Context ctx{device};
    ForwardContext f{ctx};
    MAKAR_TRY(const Tensor loss, b.loss(f));
    sum += loss.host().f32()[0] * b.weight, weight += b.weight;
  }
  (void)model;
  if (weight > 0) out["loss"] = sum / weight;
  return out;
}

Result<StepInfo> step_gradients(const Loop& l, uint64_t number) {
  const LoopSettings& s = l.settings;
  const ParameterSet& parameters = l.model.parameters();
  std::vector<MicroBatch> batches;
  double weight = 0;
  const auto micro = static_cast<uint64_t>(s.gradient_accumulation_steps);
  for (uint64_t i = 0; i < micro; ++i) {
    MAKAR_TRY(MicroBatch b, l.task.train_batch(number * micro + i));
    weight += b.weight;
    batches.push_back(std::move(b));
  }
  if (!(weight > 0)) return error_at("data", "step {} has nothing to learn from", number + 1);
  StepInfo info;
  parameters.clear_gradients();
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].weight == 0) continue;
    Tape tape(l.device);
    parameters.watch(tape);
    Context ctx{l.device, &tape, !s.no_dropout, static_cast<uint64_t>(s.seed), number * micro + i};
    ForwardContext f{ctx, nullptr, nullptr, s.gradient_checkpointing};
    MAKAR_TRY(Tensor loss, batches[i].loss(f));
    const double share = batches[i].weight / weight;
    info.loss += loss.host().f32()[0] * share;
    if (batches.size() > 1) loss = ops::scale(ctx, loss, static_cast<float>(share));
    tape.backward(loss);
    parameters.collect(tape);
    info.tokens += batches[i].tokens, info.flops += training_flops(l.model, batches[i]);
  }
  info.norm = gradient_norm(l.device, parameters);
  info.applied = std::isfinite(info.loss) && std::isfinite(info.norm);
  info.tokens_are_targets = l.task.tokens_are_targets();
  return info;
}

Result<LoopResult> run_loop(const Loop& loop) {
  loop.model.parameters().to(loop.device.memory());
  MAKAR_CHECK_OK(check_loop(loop.settings));
  const int64_t total = total_steps(loop.settings, loop.task.batches_per_epoch());
  MAKAR_TRY(const Schedule schedule, schedule_of(loop.settings, total));
  MAKAR_TRY(Optimizer optimizer,
            Optimizer::make(loop.model.parameters(), optimizer_of(loop.settings, loop.model)));
  return Trainer(loop, std::move(optimizer), schedule, total).run();
}

}  // namespace makar
