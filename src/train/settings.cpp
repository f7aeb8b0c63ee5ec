#include "train/settings.h"

#include <algorithm>
#include <cmath>

namespace makar {

void declare_loop(Options& o, LoopSettings& s) {
  o.add("-o --output-dir", &s.output_dir,
        "the run's folder: checkpoints, log, report, and at the end the model", "DIR");
  o.add("--seed", &s.seed, "of initial weights, order, masks and dropout", "N");
  o.add("--micro-batch-size --per-device-train-batch-size --batch-size", &s.micro_batch_size,
        "sequences a micro-batch", "N");
  o.add("--gradient-accumulation-steps", &s.gradient_accumulation_steps, "micro-batches a step", "N");
  o.add("--num-epochs --num-train-epochs --epochs", &s.num_epochs, "passes over the data when max_steps is 0",
        "X");
  o.add("--max-steps", &s.max_steps, "steps of the run; 0: as num_epochs says", "N");
  o.add("--learning-rate --lr", &s.learning_rate, "the peak", "X");
  o.add("--min-lr", &s.min_lr, "where cosine, polynomial and warmup_stable_decay end", "X");
  o.add("--lr-scheduler --lr-scheduler-type", &s.lr_scheduler,
        "cosine, linear, constant, constant_with_warmup, inverse_sqrt, polynomial or warmup_stable_decay",
        "NAME");
  o.add("--warmup-steps", &s.warmup_steps, "steps up to the peak", "N");
  o.add("--warmup-ratio", &s.warmup_ratio, "the same as a share of the run", "X");
  o.add("--decay-steps --cooldown-steps", &s.decay_steps,
        "warmup_stable_decay: the last steps, in which the rate goes down", "N");
  o.add("--decay-ratio --cooldown-ratio", &s.decay_ratio, "the same as a share of the run", "X");
  o.add("--decay-type", &s.decay_type, "the way down: cosine, linear or 1-sqrt", "NAME");
  o.add("--weight-decay", &s.weight_decay, "of tensors with two or more dimensions", "X");
  o.add("--optimizer --optim", &s.optimizer, "adamw, lion, muon, adafactor, sgd, ...", "NAME");
  o.add("--beta1 --adam-beta1", &s.beta1, "decay of the first moment; below 0: the optimiser's own", "X");
  o.add("--beta2 --adam-beta2", &s.beta2, "decay of the second moment; below 0: the optimiser's own", "X");
  o.add("--eps --adam-epsilon", &s.eps, "of the optimiser; below 0: its own", "X");
  o.add("--max-grad-norm", &s.max_grad_norm, "gradients are clipped to it; 0: not", "X");
  o.add("--gradient-checkpointing", &s.gradient_checkpointing, "compute blocks twice to hold less");
  o.add("--no-dropout", &s.no_dropout, "leave out every dropout the model's config asks for");
  o.add("--label-smoothing --label-smoothing-factor", &s.label_smoothing,
        "probability given to the other labels", "X");
  o.add("--ema", &s.ema, "decay of averaged weights, saved as the model; 0: none", "X");
  o.add("--eval-steps", &s.eval_steps, "steps between validations; 0: only at the end", "N");
  o.add("--save-steps", &s.save_steps, "steps between checkpoints; 0: only when stopped", "N");
  o.add("--save-in-background", &s.save_in_background,
        "go on training while a checkpoint is written; it takes memory for a copy of the state");
  o.add("--save-total-limit", &s.save_total_limit, "checkpoints kept", "N");
  o.add("--logging-steps", &s.logging_steps, "steps between lines in a pipe", "N");
  o.add("--sample-steps", &s.sample_steps,
        "steps between samples of what the model writes; 0: only at the end", "N");
  o.add("--early-stopping-patience", &s.early_stopping_patience,
        "stop after so many validations without a better one; 0: never", "N");
  o.add("--overwrite --overwrite-output-dir", &s.overwrite, "start anew although the folder holds a run");
}

namespace {
Status within(const char* name, double value, double low, double high) {
  if (!(value >= low && value <= high)) return error_at(name, "expected {} to {}, got {}", low, high, value);
  return Done{};
}
}  // namespace

Status check_loop(const LoopSettings& s) {
  MAKAR_CHECK_OK(within("micro_batch_size", static_cast<double>(s.micro_batch_size), 1, 65536));
  MAKAR_CHECK_OK(
      within("gradient_accumulation_steps", static_cast<double>(s.gradient_accumulation_steps), 1, 65536));
  MAKAR_CHECK_OK(within("num_epochs", s.num_epochs, 0, 1e6));
  MAKAR_CHECK_OK(within("max_steps", static_cast<double>(s.max_steps), 0, 1e12));
  MAKAR_CHECK_OK(within("learning_rate", s.learning_rate, 0, 1e3));
  MAKAR_CHECK_OK(within("min_lr", s.min_lr, 0, 1e3));
  MAKAR_CHECK_OK(within("warmup_steps", static_cast<double>(s.warmup_steps), 0, 1e12));
  MAKAR_CHECK_OK(within("warmup_ratio", s.warmup_ratio, 0, 1));
  MAKAR_CHECK_OK(within("decay_steps", static_cast<double>(s.decay_steps), 0, 1e12));
  MAKAR_CHECK_OK(within("decay_ratio", s.decay_ratio, 0, 1));
  MAKAR_CHECK_OK(within("weight_decay", s.weight_decay, 0, 100));
  MAKAR_CHECK_OK(within("beta1", s.beta1, -1, 0.9999999));
  MAKAR_CHECK_OK(within("beta2", s.beta2, -1, 0.9999999));
  MAKAR_CHECK_OK(within("eps", s.eps, -1, 1));
  MAKAR_CHECK_OK(within("max_grad_norm", s.max_grad_norm, 0, 1e9));
  MAKAR_CHECK_OK(within("label_smoothing", s.label_smoothing, 0, 0.999));
  MAKAR_CHECK_OK(within("ema", s.ema, 0, 0.9999999));
  MAKAR_CHECK_OK(within("save_total_limit", static_cast<double>(s.save_total_limit), 1, 1e6));
  MAKAR_CHECK_OK(within("logging_steps", static_cast<double>(s.logging_steps), 1, 1e9));
  for (const auto& [name, value] :
       {std::pair("eval_steps", s.eval_steps), std::pair("save_steps", s.save_steps),
        std::pair("sample_steps", s.sample_steps),
        std::pair("early_stopping_patience", s.early_stopping_patience)})
    MAKAR_CHECK_OK(within(name, static_cast<double>(value), 0, 1e12));
  if (s.output_dir.empty()) return error_at("output_dir", "is empty");
  MAKAR_TRY(const ScheduleKind kind, schedule_kind(s.lr_scheduler));
  MAKAR_TRY(const DecayShape shape, decay_shape(s.decay_type));
  (void)kind, (void)shape;
  return Done{};
}

Result<Schedule> schedule_of(const LoopSettings& s, int64_t total) {
  Schedule out;
  MAKAR_TRY(out.kind, schedule_kind(s.lr_scheduler));
  out.peak = s.learning_rate, out.end = s.min_lr, out.total = total;
  out.warmup = s.warmup_steps > 0
                   ? s.warmup_steps
                   : static_cast<int64_t>(std::ceil(s.warmup_ratio * static_cast<double>(total)));
  MAKAR_TRY(out.shape, decay_shape(s.decay_type));
  out.decay = s.decay_steps > 0 ? s.decay_steps
                                : static_cast<int64_t>(std::ceil(s.decay_ratio * static_cast<double>(total)));
  if (out.kind == ScheduleKind::kStable && out.warmup + out.decay > total)
    return error_at("decay_steps", "{} steps of warm-up and {} of decay are more than the {} of the run",
                    out.warmup, out.decay, total);
  return out;
}

OptimizerOptions optimizer_of(const LoopSettings& s) {
  OptimizerOptions o;
  o.name = s.optimizer, o.weight_decay = s.weight_decay;
  if (s.beta1 >= 0) o.beta1 = s.beta1;
  if (s.beta2 >= 0) o.beta2 = s.beta2;
  if (s.eps >= 0) o.eps = s.eps;
  return o;
}

int64_t total_steps(const LoopSettings& s, uint64_t batches) {
  if (s.max_steps > 0) return s.max_steps;
  const double steps =
      s.num_epochs * static_cast<double>(batches) / static_cast<double>(s.gradient_accumulation_steps);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(steps - 1e-9)));
}

Json to_json(const LoopSettings& s) {
  Json out = {{"seed", s.seed},
              {"micro_batch_size", s.micro_batch_size},
              {"gradient_accumulation_steps", s.gradient_accumulation_steps},
              {"num_epochs", s.num_epochs},
              {"max_steps", s.max_steps},
              {"learning_rate", s.learning_rate},
              {"min_lr", s.min_lr},
              {"lr_scheduler", s.lr_scheduler},
              {"warmup_steps", s.warmup_steps},
              {"warmup_ratio", s.warmup_ratio},
              {"weight_decay", s.weight_decay},
              {"optimizer", s.optimizer},
              {"beta1", s.beta1},
              {"beta2", s.beta2},
              {"eps", s.eps},
              {"max_grad_norm", s.max_grad_norm},
              {"no_dropout", s.no_dropout},
              {"label_smoothing", s.label_smoothing},
              {"ema", s.ema},
              {"early_stopping_patience", s.early_stopping_patience}};
  if (const auto kind = schedule_kind(s.lr_scheduler); kind.ok() && *kind == ScheduleKind::kStable)
    out["decay_steps"] = s.decay_steps, out["decay_ratio"] = s.decay_ratio, out["decay_type"] = s.decay_type;
  return out;
}

}  // namespace makar
