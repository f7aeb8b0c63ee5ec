#include "train/loop.h"

#include <chrono>
#include <cmath>

#include "optim/gradient_norm.h"
#include "train/background_save.h"
#include "train/run_folder.h"

namespace makar {
namespace {

// Consecutive steps that are not finite before a rollback, and rollbacks before the run fails.
constexpr int kMaxBadStepsInARow = 3, kMaxRollbacks = 5;

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

class Trainer {
 public:
  Trainer(const Loop& loop, Optimizers optimizers, Schedule schedule, int64_t total)
      : loop_(loop),
        settings_(loop.settings),
        optimizers_(std::move(optimizers)),
        schedule_(schedule),
        total_(total),
        log_(settings_.output_dir) {
    if (settings_.ema > 0)
      loop_.models.each_parameter(
          [&](const std::string& name, const Parameter& p) { averages_[name] = p.value.clone(); });
    if (settings_.keep_zeros) find_zeros();
    state_.settings = to_json(settings_);
    state_.settings["identity"] = loop_.identity;
    state_.settings["total_steps"] = total;
  }

  Result<LoopResult> run() {
    MAKAR_TRY(result_.finished_before, look_for_earlier_run());
    if (result_.finished_before) return result_;
    MAKAR_RETURN_IF_ERROR(resume());
    MAKAR_RETURN_IF_ERROR(write_unfinished_run(settings_.output_dir, state_.settings));
    result_.settings = state_.settings;
    MAKAR_RETURN_IF_ERROR(log_.open(state_.step));
    const auto begin = Clock::now();
    const int64_t first = state_.step;
    while (state_.step < total_ && !result_.stopped_early) {
      if (loop_.stop && loop_.stop->load()) {
        result_.interrupted = true;
        break;
      }
      const auto start = Clock::now();
      MAKAR_TRY(StepInfo info, step());
      info.seconds = since(start);
      info.eta =
          since(begin) / static_cast<double>(state_.step - first) * static_cast<double>(total_ - state_.step);
      result_.last_loss = info.loss, result_.tokens += info.tokens;
      MAKAR_RETURN_IF_ERROR(log_.step(info));
      if (loop_.events.step) loop_.events.step(info);
      if (!info.applied) {
        MAKAR_RETURN_IF_ERROR(not_finite(info));
        continue;
      }
      bad_in_a_row_ = 0, applied_ = true;
      MAKAR_RETURN_IF_ERROR(saving_.poll());
      MAKAR_RETURN_IF_ERROR(after_step());
    }
    result_.seconds = since(begin), result_.steps = state_.step, result_.bad_steps = state_.bad_steps;
    if (result_.interrupted) {
      MAKAR_RETURN_IF_ERROR(save());
      MAKAR_RETURN_IF_ERROR(saving_.wait());
      return result_;
    }
    MAKAR_RETURN_IF_ERROR(saving_.wait());
    if (state_.step > 0 && !applied_)
      return error_at("training",
                      "the loss or gradient was not finite in all {} steps, so the model is as it was before "
                      "training and is not saved; lower learning_rate, or check the data",
                      state_.step);
    if (!averages_.empty())
      loop_.models.each_parameter(
          [&](const std::string& name, Parameter& p) { p.value = averages_.at(name); });
    if (last_validation_ != state_.step || !averages_.empty()) MAKAR_RETURN_IF_ERROR(evaluate(false));
    MAKAR_RETURN_IF_ERROR(show_sample());
    return result_;
  }

 private:
  void say(const std::string& text) {
    if (loop_.events.say) loop_.events.say(text);
  }

  // True if the folder holds a finished run with the same settings. A finished run with other settings, or a
  // model not written by training, is never replaced without --overwrite.
  Result<bool> look_for_earlier_run() {
    const std::string& folder = settings_.output_dir;
    if (settings_.overwrite) {
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

  // Restores the newest checkpoint, if it has this run's settings. The state of the task is moved into the
  // task; the returned RunState no longer has it.
  Result<std::optional<RunState>> restore() {
    std::vector<std::string> skipped;
    MAKAR_TRY(auto found,
              load_checkpoint(settings_.output_dir, loop_.models, optimizers_, averages_, skipped));
    for (const std::string& line : skipped) say(line);
    if (!found) return found;
    const std::string differences = setting_differences(found->settings, state_.settings);
    if (!differences.empty())
      return error_at(
          settings_.output_dir,
          "holds a run with other settings: {}; use another output_dir, or --overwrite to start again",
          differences);
    MAKAR_RETURN_IF_ERROR(loop_.task.restore(std::exchange(found->task, {})));
    return found;
  }

  Status resume() {
    remove_incomplete_checkpoints(settings_.output_dir);
    MAKAR_TRY(const auto found, restore());
    if (!found) return Done{};
    state_ = *found;
    applied_ = state_.bad_steps < state_.step || state_.skipped > 0;
    say(fmt::format("resuming at step {} of {}", state_.step, total_));
    return Done{};
  }

  // Computes the gradients of a step and applies the update.
  Result<StepInfo> step() {
    MAKAR_TRY(StepInfo info,
              step_gradients(loop_, static_cast<uint64_t>(state_.step + state_.skipped), &recorded_));
    info.lr = schedule_.at(state_.step);
    if (info.applied) {
      optimizers_.step(loop_.device, info.lr, clip_factor(info.norm, settings_.max_grad_norm));
      restore_zeros();
      average();
    }
    info.step = ++state_.step, info.total = total_;
    return info;
  }

  // The masks come from the weights before training and before a checkpoint is loaded, so a resumed run has
  // the same ones.
  void find_zeros() {
    loop_.models.each_parameter([&](const std::string& name, Parameter& p) {
      if (p.shape.rank() != 2 || name.find(".layers.") == std::string::npos) return;
      const Tensor host = p.value.host();
      Tensor mask = Tensor::full(p.shape, 1.0f);
      bool any = false;
      for (int64_t i = 0; i < host.count(); ++i)
        if (host.f32()[i] == 0.0f) mask.f32()[i] = 0.0f, any = true;
      if (any) zeros_.emplace_back(&p, mask.to(loop_.device.memory()));
    });
  }

  void restore_zeros() {
    for (const auto& [p, mask] : zeros_)
      loop_.device.multiply({f32_on(loop_.device, p->value), f32_on(loop_.device, mask),
                             f32_on(loop_.device, p->value), 1, mask.count(), false});
  }

  void average() {
    if (averages_.empty()) return;
    const auto decay = static_cast<float>(settings_.ema);
    loop_.models.each_parameter([&](const std::string& name, const Parameter& p) {
      loop_.device.blend({f32_on(loop_.device, p.value), f32_on(loop_.device, averages_.at(name)),
                          p.value.count(), 1.0f - decay});
    });
  }

  // The step was not applied. After three in a row, roll back to the last checkpoint and skip the data since
  // then.
  Status not_finite(const StepInfo& info) {
    ++state_.bad_steps, ++bad_in_a_row_;
    say(fmt::format(
        "step {}: the loss ({}) or the gradient norm ({}) is not finite; the step was not applied", info.step,
        info.loss, info.norm));
    if (bad_in_a_row_ < kMaxBadStepsInARow) return Done{};
    bad_in_a_row_ = 0;
    const RunState before_rollback = state_;
    MAKAR_RETURN_IF_ERROR(saving_.wait());
    MAKAR_TRY(const auto found, restore());
    if (!found)
      return error_at(
          "training",
          "the loss or gradient was not finite in three consecutive steps, up to step {}, and no checkpoint "
          "exists to roll back to; lower learning_rate, or set save_steps",
          info.step);
    if (++rollbacks_ > kMaxRollbacks)
      return error_at("training", "steps are still not finite after {} rollbacks; lower learning_rate",
                      rollbacks_ - 1);
    state_ = *found;
    state_.skipped = before_rollback.skipped + (before_rollback.step - found->step);
    state_.bad_steps = before_rollback.bad_steps;
    last_validation_ = -1;
    say(fmt::format(
        "three steps in a row were not finite: rolled back to step {}, skipping the data since then",
        state_.step));
    return Done{};
  }

  Status after_step() {
    if (settings_.eval_steps > 0 && state_.step % settings_.eval_steps == 0)
      MAKAR_RETURN_IF_ERROR(evaluate(true));
    if (settings_.sample_steps > 0 && state_.step % settings_.sample_steps == 0 && state_.step < total_)
      MAKAR_RETURN_IF_ERROR(show_sample());
    if (settings_.save_steps > 0 && (state_.step % settings_.save_steps == 0 || state_.step == total_))
      MAKAR_RETURN_IF_ERROR(save());
    return Done{};
  }

  Status evaluate(bool watch) {
    if (loop_.task.validation_batches() == 0) return Done{};
    recorded_.release();
    const RoundedWeights rounded(loop_.models, loop_.round);
    MAKAR_TRY(result_.validation, validate(loop_.task, loop_.device, activations_of(settings_)));
    last_validation_ = state_.step;
    MAKAR_RETURN_IF_ERROR(log_.validation(state_.step, result_.validation));
    if (loop_.events.validation) loop_.events.validation(state_.step, result_.validation);
    if (!watch) return Done{};
    std::string name = loop_.task.watched();
    const double sign = name.starts_with("-") ? -1 : 1;
    if (sign < 0) name.erase(0, 1);
    const auto it = result_.validation.find(name);
    if (it == result_.validation.end()) return Done{};
    const double value = std::isfinite(it->second) ? sign * it->second : -1e300;
    if (state_.validations++ == 0 || value > state_.best)
      state_.best = value, state_.since_best = 0;
    else
      ++state_.since_best;
    if (settings_.early_stopping_patience > 0 && state_.since_best >= settings_.early_stopping_patience) {
      result_.stopped_early = true;
      say(fmt::format("{} has not improved in {} validations: stopping early", name, state_.since_best));
    }
    return Done{};
  }

  Status show_sample() {
    recorded_.release();
    const RoundedWeights rounded(loop_.models, loop_.round);
    MAKAR_TRY(const std::string text, loop_.task.sample(loop_.device, state_.step));
    if (text.empty()) return Done{};
    MAKAR_RETURN_IF_ERROR(log_.sample(state_.step, text));
    if (loop_.events.sample) loop_.events.sample(state_.step, text);
    return Done{};
  }

  Status save() {
    std::string not_finite;
    loop_.models.each_parameter([&](const std::string& name, const Parameter& p) {
      const Tensor on_host = p.value.host();
      for (const float v : on_host.span())
        if (!std::isfinite(v) && not_finite.empty()) not_finite = name;
    });
    if (!not_finite.empty())
      return error_at("training",
                      "parameter {} is not finite at step {}: no checkpoint is written; lower learning_rate",
                      not_finite, state_.step);
    const bool in_background = settings_.save_in_background;
    RunState now = state_;
    now.task = loop_.task.state();
    auto snapshot = take_snapshot(now, loop_.models, optimizers_, averages_, in_background);
    snapshot.state.task.tensors.clear();  // they are among snapshot.tensors
    if (!in_background) return save_checkpoint(settings_.output_dir, snapshot, settings_.save_total_limit);
    return saving_.start(
        [run = settings_.output_dir, snapshot = std::move(snapshot), keep = settings_.save_total_limit] {
          return save_checkpoint(run, snapshot, keep);
        });
  }

  const Loop& loop_;
  const LoopSettings& settings_;
  Optimizers optimizers_;
  Schedule schedule_;
  int64_t total_;
  RunLog log_;
  RunState state_;
  Averages averages_;
  std::vector<std::pair<Parameter*, Tensor>> zeros_;  // with masks: 0 where the weight stays 0, else 1
  RecordedSteps recorded_;
  BackgroundSave saving_;
  LoopResult result_;
  int bad_in_a_row_ = 0, rollbacks_ = 0;
  bool applied_ = false;  // whether any step of the run was applied
  int64_t last_validation_ = -1;
};

}  // namespace

Result<LoopResult> run_loop(const Loop& loop) {
  loop.models.to(loop.device.memory());
  MAKAR_RETURN_IF_ERROR(check_loop(loop.settings));
  const int64_t total = total_steps(loop.settings, loop.task.batches_per_epoch());
  MAKAR_TRY(const Schedule schedule, schedule_of(loop.settings, total));
  MAKAR_TRY(Optimizers optimizers, Optimizers::make(loop.models, loop.settings));
  return Trainer(loop, std::move(optimizers), schedule, total).run();
}

}  // namespace makar
