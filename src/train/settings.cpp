#include "train/settings.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/option_table.h"

namespace makar {

namespace {

using S = LoopSettings;
constexpr double kMaxSteps = 1e12;
constexpr const char *kRun = "Run", *kOptimization = "Optimization",
                     *kValidation = "Validation and checkpoints";
constexpr TableOption<LoopSettings> kOptions[] = {
    {"-o output_dir", &S::output_dir, 0, 0, "DIR",
     "folder of the run: checkpoints, log, report and the finished model", kRun},
    {"overwrite overwrite_output_dir", &S::overwrite, 0, 0, "",
     "start again in a folder that holds a run, and replace its model", kRun},
    {"num_epochs num_train_epochs epochs", &S::num_epochs, 0, 1e6, "X",
     "number of passes over the data, unless --max-steps is set", kRun},
    {"max_steps", &S::max_steps, 0, kMaxSteps, "N", "number of optimizer steps; 0 to use --num-epochs", kRun},
    {"micro_batch_size per_device_train_batch_size batch_size", &S::micro_batch_size, 1, 65536, "N",
     "sequences per micro-batch", kRun},
    {"gradient_accumulation_steps", &S::gradient_accumulation_steps, 1, 65536, "N",
     "micro-batches per optimizer step", kRun},
    {"gradient_checkpointing", &S::gradient_checkpointing, 0, 0, "",
     "recompute activations in the backward pass to save memory", kRun},
    {"bf16", &S::bf16, 0, 0, "",
     "mixed precision: activations and products in bf16; weights, gradients and sums in f32", kRun},
    {"seed", &S::seed, -0x1p63, 0x1p63, "N", "seed for initialisation, shuffling, masking and dropout", kRun},
    {"optimizer optim", &S::optimizer, 0, 0, "NAME", "adamw, lion, muon, adafactor, sgd, ...", kOptimization},
    {"learning_rate lr", &S::learning_rate, 0, 1e3, "X", "peak learning rate", kOptimization},
    {"min_lr", &S::min_lr, 0, 1e3, "X", "final learning rate of cosine, polynomial and warmup_stable_decay",
     kOptimization},
    {"lr_scheduler lr_scheduler_type", &S::lr_scheduler, 0, 0, "NAME",
     "cosine, linear, constant, constant_with_warmup, inverse_sqrt, polynomial or warmup_stable_decay",
     kOptimization},
    {"warmup_steps", &S::warmup_steps, 0, kMaxSteps, "N", "number of warm-up steps", kOptimization},
    {"warmup_ratio", &S::warmup_ratio, 0, 1, "X",
     "warm-up as a share of the run, unless --warmup-steps is set", kOptimization},
    {"decay_steps cooldown_steps", &S::decay_steps, 0, kMaxSteps, "N",
     "warmup_stable_decay: number of final steps in which the rate decays", kOptimization},
    {"decay_ratio cooldown_ratio", &S::decay_ratio, 0, 1, "X",
     "warmup_stable_decay: decay as a share of the run, unless --decay-steps is set", kOptimization},
    {"decay_type", &S::decay_type, 0, 0, "NAME",
     "warmup_stable_decay: shape of the decay, cosine, linear or 1-sqrt", kOptimization},
    {"weight_decay", &S::weight_decay, 0, 100, "X", "weight decay of tensors with two or more dimensions",
     kOptimization},
    {"beta1 adam_beta1", &S::beta1, -1, 0.9999999, "X",
     "decay of the first moment; below 0 for the optimizer's own", kOptimization},
    {"beta2 adam_beta2", &S::beta2, -1, 0.9999999, "X",
     "decay of the second moment; below 0 for the optimizer's own", kOptimization},
    {"eps adam_epsilon", &S::eps, -1, 1, "X", "epsilon of the optimizer; below 0 for its own", kOptimization},
    {"max_grad_norm", &S::max_grad_norm, 0, 1e9, "X", "clip the gradient norm to X; 0 for off",
     kOptimization},
    {"no_dropout", &S::no_dropout, 0, 0, "", "ignore the dropout of the model's config", kOptimization},
    {"label_smoothing label_smoothing_factor", &S::label_smoothing, 0, 0.999, "X",
     "probability spread over the other labels", kOptimization},
    {"keep_zeros", &S::keep_zeros, 0, 0, "",
     "keep layer weights that are 0 at 0, to train a pruned model further", kOptimization},
    {"ema", &S::ema, 0, 0.9999999, "X",
     "save an exponential moving average of the weights with this decay; 0 for off", kOptimization},
    {"eval_steps", &S::eval_steps, 0, kMaxSteps, "N", "steps between validations; 0 for only at the end",
     kValidation},
    {"early_stopping_patience", &S::early_stopping_patience, 0, kMaxSteps, "N",
     "stop after this many validations without improvement; 0 for never", kValidation},
    {"sample_steps", &S::sample_steps, 0, kMaxSteps, "N",
     "steps between samples of generated text; 0 for only at the end", kValidation},
    {"logging_steps", &S::logging_steps, 1, 1e9, "N",
     "steps between log lines when the output is not a terminal", kValidation},
    {"save_steps", &S::save_steps, 0, kMaxSteps, "N", "steps between checkpoints; 0 for only when stopped",
     kValidation},
    {"save_total_limit", &S::save_total_limit, 1, 1e6, "N", "number of checkpoints to keep", kValidation},
    {"save_in_background", &S::save_in_background, 0, 0, "",
     "write checkpoints while training continues; needs memory for a copy of the state", kValidation},
};
// Settings that do not change the weights: they may differ when a run resumes.
constexpr const char* kWithoutEffect[] = {"output_dir",    "overwrite",        "gradient_checkpointing",
                                          "eval_steps",    "sample_steps",     "save_steps",
                                          "logging_steps", "save_total_limit", "save_in_background"};

}  // namespace

void declare_loop(Options& options, LoopSettings& settings) {
  declare_table<LoopSettings>(options, settings, kOptions);
}

Status check_loop(const LoopSettings& s) {
  MAKAR_RETURN_IF_ERROR(check_table<LoopSettings>(s, kOptions));
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
  o.muon_predicate = hidden_matrices(model), o.muon_match_adamw = true;
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
  Json out = table_values<LoopSettings>(s, kOptions);
  for (const char* name : kWithoutEffect) out.erase(name);
  if (!s.bf16) out.erase("bf16");  // so that runs started before this setting existed resume
  const auto kind = schedule_kind(s.lr_scheduler);
  if (!kind.ok() || *kind != ScheduleKind::kStable)
    for (const char* name : {"decay_steps", "decay_ratio", "decay_type"}) out.erase(name);
  return out;
}

}  // namespace makar
