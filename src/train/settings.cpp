#include "train/settings.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace makar {

void declare_loop(Options& o, LoopSettings& s) {
  o.group("Run");
  o.add("-o --output-dir", &s.output_dir,
        "folder of the run: checkpoints, log, report and the finished model", "DIR");
  o.add("--overwrite --overwrite-output-dir", &s.overwrite,
        "start again in a folder that holds a run, and replace its model");
  o.add("--num-epochs --num-train-epochs --epochs", &s.num_epochs,
        "number of passes over the data, unless --max-steps is set", "X");
  o.add("--max-steps", &s.max_steps, "number of optimizer steps; 0 to use --num-epochs", "N");
  o.add("--micro-batch-size --per-device-train-batch-size --batch-size", &s.micro_batch_size,
        "sequences per micro-batch", "N");
  o.add("--gradient-accumulation-steps", &s.gradient_accumulation_steps, "micro-batches per optimizer step",
        "N");
  o.add("--gradient-checkpointing", &s.gradient_checkpointing,
        "recompute activations in the backward pass to save memory");
  o.add("--seed", &s.seed, "seed for initialisation, shuffling, masking and dropout", "N");
  o.group("Optimization");
  o.add("--optimizer --optim", &s.optimizer, "adamw, lion, muon, adafactor, sgd, ...", "NAME");
  o.add("--learning-rate --lr", &s.learning_rate, "peak learning rate", "X");
  o.add("--min-lr", &s.min_lr, "final learning rate of cosine, polynomial and warmup_stable_decay", "X");
  o.add("--lr-scheduler --lr-scheduler-type", &s.lr_scheduler,
        "cosine, linear, constant, constant_with_warmup, inverse_sqrt, polynomial or warmup_stable_decay",
        "NAME");
  o.add("--warmup-steps", &s.warmup_steps, "number of warm-up steps", "N");
  o.add("--warmup-ratio", &s.warmup_ratio, "warm-up as a share of the run, unless --warmup-steps is set",
        "X");
  o.add("--decay-steps --cooldown-steps", &s.decay_steps,
        "warmup_stable_decay: number of final steps with a falling rate", "N");
  o.add("--decay-ratio --cooldown-ratio", &s.decay_ratio,
        "the same as a share of the run, unless --decay-steps is set", "X");
  o.add("--decay-type", &s.decay_type, "warmup_stable_decay: shape of the decay, cosine, linear or 1-sqrt",
        "NAME");
  o.add("--weight-decay", &s.weight_decay, "weight decay of tensors with two or more dimensions", "X");
  o.add("--beta1 --adam-beta1", &s.beta1, "decay of the first moment; below 0 for the optimizer's own", "X");
  o.add("--beta2 --adam-beta2", &s.beta2, "decay of the second moment; below 0 for the optimizer's own", "X");
  o.add("--eps --adam-epsilon", &s.eps, "epsilon of the optimizer; below 0 for its own", "X");
  o.add("--max-grad-norm", &s.max_grad_norm, "clip the gradient norm to X; 0 for off", "X");
  o.add("--no-dropout", &s.no_dropout, "ignore the dropout of the model's config");
  o.add("--label-smoothing --label-smoothing-factor", &s.label_smoothing,
        "probability spread over the other labels", "X");
  o.add("--ema", &s.ema, "decay of averaged weights, which are saved as the model; 0 for off", "X");
  o.group("Validation and checkpoints");
  o.add("--eval-steps", &s.eval_steps, "steps between validations; 0 for only at the end", "N");
  o.add("--early-stopping-patience", &s.early_stopping_patience,
        "stop after this many validations without improvement; 0 for never", "N");
  o.add("--sample-steps", &s.sample_steps, "steps between samples of generated text; 0 for only at the end",
        "N");
  o.add("--logging-steps", &s.logging_steps, "steps between log lines when the output is not a terminal",
        "N");
  o.add("--save-steps", &s.save_steps, "steps between checkpoints; 0 for only when stopped", "N");
  o.add("--save-total-limit", &s.save_total_limit, "number of checkpoints to keep", "N");
  o.add("--save-in-background", &s.save_in_background,
        "train on while a checkpoint is written; takes memory for a copy of the state");
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
    return error_at("decay_steps", "{} warm-up and {} decay steps exceed the {} steps of the run", out.warmup,
                    out.decay, total);
  return out;
}

namespace {
// Selects the weights of linear layers inside the network and of adapters; excludes embedding tables (token,
// position, relative bias) and output layers (Jordan et al., 2024).
std::function<bool(const Parameter&)> hidden_matrices(Model& model) {
  std::unordered_set<const Parameter*> hidden;
  model.each_linear([&](const std::string&, Linear& linear) {
    hidden.insert(linear.weight());
    if (const Adapter* adapter = linear.adapter()) hidden.insert(adapter->a), hidden.insert(adapter->b);
  });
  for (const Parameter* output : model.output_weights()) hidden.erase(output);
  for (const Stack* stack : {model.encoder(), model.decoder()})
    if (stack) hidden.erase(stack->tokens());
  return [hidden = std::move(hidden)](const Parameter& p) { return hidden.contains(&p); };
}
}  // namespace

OptimizerOptions optimizer_of(const LoopSettings& s, Model& model) {
  OptimizerOptions o;
  o.muon_takes = hidden_matrices(model);
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
