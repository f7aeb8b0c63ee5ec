#include "nets/batches.h"

#include <algorithm>
#include <cmath>

#include "data/permutation.h"
#include "optim/gradient_norm.h"

namespace makar {

Status check(const NetTraining& o) {
  if (o.epochs < 1 || o.epochs > 1'000'000)
    return error_at("`epochs`", "must be 1 to 1000000, got {}", o.epochs);
  if (o.batch < 1 || o.batch > 65536) return error_at("`batch_size`", "must be 1 to 65536, got {}", o.batch);
  if (!(o.learning_rate > 0 && std::isfinite(o.learning_rate)))
    return error_at("`learning_rate`", "must be above 0, got {}", o.learning_rate);
  if (!(o.weight_decay >= 0)) return error_at("`weight_decay`", "must be 0 or more, got {}", o.weight_decay);
  if (!(o.max_grad_norm >= 0))
    return error_at("`max_grad_norm`", "must be 0 or more, got {}", o.max_grad_norm);
  if (o.beta1 != -1 && !(o.beta1 >= 0 && o.beta1 < 1))
    return error_at("`beta1`", "must be at least 0 and below 1, got {}", o.beta1);
  MAKAR_TRY(const ScheduleKind kind, schedule_kind(o.lr_scheduler));
  (void)kind;
  ParameterSet no_parameters;
  OptimizerOptions options;
  options.name = o.optimizer;
  MAKAR_TRY(const Optimizer optimizer, Optimizer::make(no_parameters, options));
  (void)optimizer;
  return Done{};
}

Result<double> train_net_step(ParameterSet& set, Optimizer& optimizer, Context ctx, double lr,
                              double max_norm, const std::function<Tensor(Context&)>& loss) {
  Tape tape(ctx.device);
  ctx.tape = &tape, ctx.training = true;
  set.clear_gradients();
  set.watch(tape);
  const Tensor value = loss(ctx);
  tape.backward(value);
  set.collect(tape);
  const double loss_value = value.host().f32()[0];
  if (!std::isfinite(loss_value))
    return error_at("training", "the loss is not finite at step {}; lower `learning_rate`", ctx.step + 1);
  const double factor = max_norm > 0 ? clip_factor(gradient_norm(ctx.device, set), max_norm) : 1.0;
  optimizer.step(ctx.device, lr, factor);
  return loss_value;
}

Status train_net(ParameterSet& set, Device& device, const NetTraining& o, size_t examples,
                 const std::function<Tensor(Context&, std::span<const size_t>)>& loss,
                 const std::function<Result<bool>(const EpochResult&)>& each) {
  check(examples > 0, "training needs examples");
  const auto batch = static_cast<size_t>(o.batch);
  const size_t steps = (examples + batch - 1) / batch;
  Schedule schedule;
  MAKAR_TRY(schedule.kind, schedule_kind(o.lr_scheduler));
  schedule.peak = o.learning_rate, schedule.total = o.epochs * static_cast<int64_t>(steps);
  OptimizerOptions options;
  options.name = o.optimizer, options.weight_decay = o.weight_decay;
  if (o.beta1 >= 0) options.beta1 = o.beta1;
  MAKAR_TRY(Optimizer optimizer, Optimizer::make(set, options));
  const auto seed = static_cast<uint64_t>(o.seed);
  uint64_t step = 0;
  for (int64_t epoch = 0; epoch < o.epochs; ++epoch) {
    const Permutation order(examples, seed, static_cast<uint64_t>(epoch));
    EpochResult result{epoch + 1, 0};
    for (size_t first = 0; first < examples; first += batch, ++step) {
      std::vector<size_t> batch_examples;
      for (size_t i = first; i < std::min(first + batch, examples); ++i) batch_examples.push_back(order(i));
      Context ctx{device, nullptr, true, seed, step};
      MAKAR_TRY(const double loss_value,
                train_net_step(set, optimizer, ctx, schedule.at(static_cast<int64_t>(step)), o.max_grad_norm,
                               [&](Context& c) { return loss(c, batch_examples); }));
      result.loss += loss_value * static_cast<double>(batch_examples.size()) / static_cast<double>(examples);
    }
    MAKAR_TRY(const bool more, each(result));
    if (!more) break;
  }
  return Done{};
}

}  // namespace makar
